"""From a spec to what will be run: every combination that cannot work is refused, the rest is resolved."""

from pathlib import Path
from typing import Any

import pytest
from slowed import slowed

from paceline.devices import cpu, cuda
from paceline.engines.plan import Plan, plan
from paceline.errors import DeviceError, RequestError, SpecError
from paceline.network import Site
from paceline.spec import RunSpec
from paceline.traffic.ps import ParameterServer


@pytest.fixture(autouse=True)
def _a_machine_of_four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(cuda, "available_gpus", lambda: 0)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs beside the cores."""
    monkeypatch.setattr(cuda, "available_gpus", lambda: 2)


def planned(**settings: Any) -> Plan:
    length = {} if settings.keys() & {"epochs", "seconds"} else {"steps": 4}
    return plan(RunSpec(**{"workload": "vae", **length, **settings}))


REFUSED: dict[str, tuple[dict[str, Any], type[RequestError], str]] = {
    "unknown workload": ({"workload": "vea"}, SpecError, "'vea' is not a known workload. Did you mean 'vae'"),
    "option of a workload": ({"workload": "vae:latent=0"}, SpecError, "latent=0 is not valid: it must be at least 1"),
    "unknown strategy": (
        {"strategy": "sp"},
        SpecError,
        "'sp' is not a known strategy.*Valid: independent, bf16, fp16, allreduce, ps",
    ),
    "chain": ({"strategy": "allreduce+ps"}, SpecError, "allreduce and ps are both a transport: keep one of them"),
    "unknown feed": ({"feed": "datset"}, SpecError, "'datset' is not a known feed. Did you mean 'dataset'"),
    "feed that cannot work": (
        {"feed": "synthetic:prefetch=2"},
        SpecError,
        "at=device cannot be combined with prefetch=2",
    ),
    "unknown device": ({"device": "tpu"}, SpecError, "'tpu' is not a known device.*Valid: auto, cpu, cuda"),
    "epochs without an end": (
        {"feed": "synthetic", "epochs": 2},
        SpecError,
        "--feed synthetic is endless and has no epochs: use --steps or --seconds",
    ),
    "epochs without an end, with a space": ({"feed": " synthetic:at=host", "epochs": 2}, SpecError, "is endless"),
    "a rate scaled twice": (
        {"strategy": "allreduce:reduce=sum", "lr_rule": "linear"},
        SpecError,
        "--lr-rule linear with allreduce:reduce=sum scales twice.*Use reduce=mean, or --lr-rule none",
    ),
    "a rate that grows with workers who update alone": (
        {"strategy": "ps:mode=async", "lr_rule": "sqrt"},
        SpecError,
        "--lr-rule sqrt cannot be combined with ps:mode=async.*Use --lr-rule none",
    ),
    "a rate that grows with independent workers": (
        {"strategy": "independent", "lr_rule": "linear"},
        SpecError,
        "--lr-rule linear cannot be combined with independent",
    ),
    "a norm of no common gradient, async": (
        {"strategy": "ps:mode=async", "clip_norm": 1.0},
        SpecError,
        "--clip-norm with ps:mode=async is not possible.*Use mode=sync, or leave --clip-norm out",
    ),
    "a norm of no common gradient, stale": (
        {"strategy": "ps:mode=stale", "clip_norm": 1.0},
        SpecError,
        "--clip-norm with ps:mode=stale is not possible",
    ),
    "servers on GPUs of a CPU run": (
        {"strategy": "ps:device=gpu"},
        DeviceError,
        "ps:device=gpu needs --device cuda.*Use device=cpu",
    ),
    "MPS without GPUs": ({"mps": True}, DeviceError, "--mps on needs GPUs.*Use --mps off"),
    "GPUs that are not there": ({"device": "cuda"}, DeviceError, "no NVIDIA GPU. Use --device cpu"),
    "too many workers": ({"workers": 8}, DeviceError, "add --workers-per-device 2"),
    "servers without devices": (
        {"workers": 4, "strategy": "ps:place=own"},
        DeviceError,
        "ps:place=own needs 1 device beside the workers' 4, but this machine has 0 left",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_refused_with_the_remedy(what: str) -> None:
    settings, error, said = REFUSED[what]
    with pytest.raises(error, match=said):
        planned(**settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cores_per_device": 2}, "--cores-per-device 2 needs a CPU: this run is on GPUs. Leave it out"),
        ({"workers": 2, "mps": True}, "--mps on is for several workers per GPU: add --workers-per-device"),
        ({"workers": 4}, "needs 4 GPUs, but this machine has 2: add --workers-per-device 2"),
        ({"workers": 2, "strategy": "ps:place=own"}, "place=own needs 1 more GPU, but this machine has 0 left"),
    ],
)
@pytest.mark.usefixtures("gpus")
def test_what_cannot_work_on_gpus_is_refused_with_the_remedy(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        planned(**settings)


@pytest.mark.usefixtures("gpus")
def test_gpus_are_used_where_they_are_and_cores_on_request() -> None:
    assert planned(workers=4, workers_per_device=2, mps=True).placement.kind == "cuda"
    assert planned(workers=2, strategy="ps:device=gpu").placement.server_place == "shared"
    assert planned(workers=2, device="cpu", cores_per_device=2).placement.kind == "cpu"


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "allreduce:reduce=mean", "lr_rule": "linear"},
        {"strategy": "ps:mode=sync", "clip_norm": 1.0},
        {"feed": "synthetic", "seconds": 3.0},
        {"epochs": 2},
    ],
)
def test_what_only_looks_like_a_mistake_is_planned(settings: dict[str, Any]) -> None:
    assert planned(**settings).placement.devices >= 1


def test_names_are_resolved_as_they_will_be_recorded() -> None:
    spec = planned(workload=" vae:latent=2,hidden=9", strategy="ps:mode=stale", feed="dataset:shard=on").spec
    assert (spec.workload, spec.strategy, spec.feed) == ("vae:hidden=9", "ps:mode=stale,bound=3", "dataset")


def test_a_users_own_workload_is_left_as_it_is_written() -> None:
    spec = planned(workload="slowed:slowed:seconds=0.5").spec
    assert spec.workload == "slowed:slowed:seconds=0.5"
    assert (spec.batch, spec.lr) == (slowed().batch, slowed().optimizer.lr)


def test_a_workload_that_cannot_be_found_or_built_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_workload.py").write_text("def build(): return 1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match="There is no module 'my'"):
        planned(workload="my.module:build:width=3")
    raised = r"broken_workload:build raised ZeroDivisionError: division by zero \(.*, line 1\)\. Nothing was run"
    with pytest.raises(SpecError, match=raised):
        planned(workload="broken_workload:build")


def test_batch_learning_rate_and_optimizer_are_resolved_before_a_run_starts() -> None:
    spec = planned(workload="vae").spec
    assert (spec.batch, spec.lr, spec.optimizer) == (128, 0.001, "own")
    assert planned(workload="vae", batch=4, lr=0.5, optimizer="sgd").spec.batch == 4


def test_what_the_workload_decided_does_not_identify_a_run() -> None:
    identity = planned(workload="vae", lr=0.5).identity
    assert (identity["batch"], identity["lr"]) == (None, 0.5)


def test_validation_is_after_every_epoch_unless_there_are_none_or_the_user_says() -> None:
    chosen = {
        (feed, asked): planned(feed=feed, validate=asked).spec.validate
        for feed in ("dataset", "synthetic:at=host", " synthetic")
        for asked in (None, "end", "off")
    }
    assert {key: value for key, value in chosen.items() if key[1] is None} == {
        ("dataset", None): "epoch",
        ("synthetic:at=host", None): "off",
        (" synthetic", None): "off",
    }
    assert all(value == asked for (_, asked), value in chosen.items() if asked is not None)


def test_servers_are_placed_as_the_strategy_asks() -> None:
    own = planned(workers=2, strategy="ps:servers=2")
    assert (own.placement.server_place, own.placement.devices) == ("own", 4)
    shared = planned(workers=2, strategy="ps:servers=2,place=shared")
    assert (shared.placement.server_place, shared.placement.devices) == ("shared", 2)
    assert shared.traffic.transport == ParameterServer(servers=2, place="shared")


def test_planning_a_plan_again_changes_nothing() -> None:
    once = planned(workers=2, strategy="ps:mode=stale", feed="synthetic", workload="vae:hidden=9")
    assert plan(once.spec) == once


IN_A_TESTBED: dict[str, tuple[dict[str, Any], str]] = {
    "more nodes": ({"nodes": 4, "workers": 4}, "--nodes 4 is more than the testbed's 3"),
    "a stranger": ({"network": "1Gbps,n3=1Gbps"}, "names n3"),
    "a latency": ({"network": "1Gbps,latency=1ms"}, "no netem"),
}


@pytest.mark.parametrize("case", IN_A_TESTBED)
def test_what_a_testbed_does_not_have_is_refused(case: str) -> None:
    settings, message = IN_A_TESTBED[case]
    with pytest.raises(RequestError, match=message):
        plan(RunSpec(**{"workload": "vae", "steps": 4, "workers": 2, "nodes": 2, **settings}), Site(3, "1Gbps"))


def test_gpus_of_one_machine_are_no_nodes(gpus: None) -> None:
    spec = RunSpec(workload="vae", steps=4, workers=2, nodes=2, device="cuda")
    with pytest.raises(DeviceError, match=r"would bypass its links\. Use --device cpu"):
        plan(spec, Site(2, "1Gbps"))


@pytest.mark.parametrize(
    ("settings", "asked"), [({"nodes": 2}, "--nodes 2"), ({"network": "1Gbps"}, "--network 1Gbps")]
)
def test_several_nodes_are_refused_on_one_machine_naming_the_testbed(settings: dict[str, Any], asked: str) -> None:
    with pytest.raises(
        SpecError, match=f"{asked} needs several hosts: put `paceline testbed --nodes 2 --bandwidth 1Gbps"
    ):
        planned(workers=2, **settings)


def test_there_are_never_more_nodes_than_workers_and_one_node_has_no_network() -> None:
    site = Site(3, "1Gbps")
    seen = [
        plan(RunSpec(workload="vae", steps=4, workers=workers, nodes=3, network=network), site).spec
        for workers, network in ((1, "100Mbps"), (2, "1000Mbps"), (4, None))
    ]
    assert [(spec.nodes, spec.network) for spec in seen] == [(1, None), (2, "1Gbps"), (3, "1Gbps")]


def test_servers_go_to_the_nodes_in_turn_and_share_devices_of_their_own_node() -> None:
    spec = RunSpec(workload="vae", steps=4, workers=4, nodes=2, strategy="ps:servers=4,place=shared")
    placement = plan(spec, Site(2, "1Gbps")).placement
    assert [(slot.node, slot.device) for slot in placement.workers] == [
        *((0, "cpu:0"), (0, "cpu:1"), (1, "cpu:2"), (1, "cpu:3"))
    ]
    assert [(slot.node, slot.device) for slot in placement.servers] == [
        *((0, "cpu:0"), (1, "cpu:2"), (0, "cpu:1"), (1, "cpu:3"))
    ]
    assert [placement.local_rank(rank) for rank in range(4)] == [0, 1, 0, 1]

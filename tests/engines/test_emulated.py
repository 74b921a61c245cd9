"""Runs on emulated devices: the published rate alone, real exchange together, and a host that keeps up or says so."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from known import with_known_rate

from paceline.devices.emulated import names_of
from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.paces import paces_of
from paceline.engines.plan import plan
from paceline.errors import DataError, DeviceError, SpecError
from paceline.measure import sidecar
from paceline.measure.emulation import host_limits, host_was_limit
from paceline.measure.profile import Profile, ProfiledWorkload
from paceline.measure.scaling import scaling_rows
from paceline.numbers import rate
from paceline.record import Record
from paceline.record_parts import GradientTime, MeasuredLink, MeasuredNetwork, Throughput
from paceline.references.published import rate_of
from paceline.spec import RunSpec
from paceline.studies.table import figure

SIZED = "resnet18:image=32,samples=8,parameters=200000,tensors=4"


def spec_of(**settings: Any) -> RunSpec:
    return RunSpec(**{"workload": SIZED, "device": "emulated:rate=40", "batch": 8, "steps": 5, **settings})


def run(out: Path, **settings: Any) -> Record:
    return LocalEngine().run(plan(spec_of(**settings)), out, NoDisplay())


def test_a_worker_alone_has_the_rate_of_its_device_at_any_slow_motion(tmp_path: Path) -> None:
    for slow_motion in (1.0, 2.0):
        record = run(tmp_path / str(slow_motion), slow_motion=slow_motion)
        # Never faster than its device. A busy machine makes it slower, and by how much is no test; that figures are
        # rescaled from the seconds that really passed is one.
        assert record.throughput.value <= 40.4
        (worker,) = sidecar.load(tmp_path / str(slow_motion))
        passed = slow_motion * (worker.end - worker.begin).sum()
        assert 5 * 0.2 * slow_motion <= passed <= record.wall_seconds.training + 1e-6
        assert record.step_seconds * record.throughput.value == pytest.approx(8, rel=0.2)
        assert record.emulation is not None
        assert record.emulation.slow_motion == slow_motion
        assert record.emulation.device_seconds_per_step == pytest.approx(0.2)
        assert record.wall_seconds.training >= 5 * 0.2 * slow_motion
        assert {gradient.bytes for gradient in record.gradients}
        assert record.step_seconds >= 0.199


@pytest.mark.parametrize("strategy", ["allreduce", "ps"])
def test_gradients_of_real_size_are_exchanged_and_nothing_is_learned(strategy: str, tmp_path: Path) -> None:
    record = run(tmp_path, workers=3, strategy=strategy)
    assert record.traffic.counted == record.traffic.claimed
    assert record.traffic.sent_bytes_per_worker_and_step > 2 * 200_000
    assert record.devices == 3
    assert set(record.learning.loss) == {None}
    assert record.spec.optimizer == "sgd"
    assert [row.busy_percent for row in record.utilisation] == [None] * 3
    assert record.emulation is not None
    stolen, busy = record.emulation.host_stolen_percent, record.emulation.host_busy_percent
    assert stolen is not None
    assert busy is not None
    assert 0 <= stolen <= busy


def test_a_profile_from_a_file_sets_when_every_gradient_is_ready(tmp_path: Path) -> None:
    ready = {"tensors.3": 0.1, "tensors.1": 0.2, "tensors.2": 0.25, "tensors.0": 0.3}
    profile = Profile(
        workload=ProfiledWorkload(name="resnet18", parameters=4, tensors=4, gradient_bytes=16, unit="images"),
        spec=SIZED,
        device="a device",
        precision="fp32",
        batch=8,
        units_per_step=8,
        throughput=Throughput(value=20.0, low=None, high=None, unit="images/s"),
        input_seconds=0.0,
        forward_seconds=0.05,
        backward_seconds=0.3,
        update_seconds=0.0,
        other_seconds=0.0,
        compute_spread=0.0,
        gradients=tuple(GradientTime(name=n, bytes=4, ready_seconds=s) for n, s in ready.items()),
        versions={},
    )
    profile.save(tmp_path / "device.json")
    record = run(tmp_path / "run", device=f"emulated:{tmp_path / 'device.json'}", steps=8)
    found = {gradient.name: gradient.ready_seconds for gradient in record.gradients}
    assert found == pytest.approx(ready, abs=0.04)
    with pytest.raises(SpecError, match=r"is a profile of workload resnet18:.* but this run has vae"):
        plan(spec_of(workload="vae", device=f"emulated:{tmp_path / 'device.json'}"))
    with pytest.raises(SpecError, match=r"is a profile of batch 8, but this run has 4: make one with .* --batch 4"):
        plan(spec_of(batch=4, device=f"emulated:{tmp_path / 'device.json'}"))


def test_a_host_that_cannot_keep_up_is_said_to_be_the_limit(tmp_path: Path) -> None:
    record = run(tmp_path, device="emulated:rate=1000000")
    assert record.emulation is not None
    assert record.emulation.host_limits
    told = host_was_limit([record])
    assert told is not None
    assert told.startswith("The host was the limit")
    assert "--slow-motion 2" in told
    (row,) = scaling_rows([with_known_rate(record)])
    assert figure(row.throughput, rate).endswith("(host-limited)")
    assert told in row.notes


def test_twice_the_slow_motion_with_the_same_rate_makes_a_figure_count(tmp_path: Path) -> None:
    limited = run(tmp_path, device="emulated:rate=1000000")

    def at(slow_motion: float, times: float) -> Record:
        assert limited.emulation is not None
        rate = limited.throughput
        return dataclasses.replace(
            limited,
            spec=dataclasses.replace(limited.spec, slow_motion=slow_motion, steps=3),
            emulation=dataclasses.replace(limited.emulation, slow_motion=slow_motion),
            throughput=Throughput(value=rate.value * times, low=None, high=None, unit=rate.unit),
        )

    assert host_was_limit([limited], [limited, at(2, 1.02)]) is None
    assert host_was_limit([limited], [limited, at(2, 1.05)]) is not None
    assert host_was_limit([limited], [limited, at(3, 1.0)]) is not None
    assert [row.throughput.host_limited for row in scaling_rows([limited, at(2, 0.99)])] == [False, False]


def test_reasons_are_busy_and_stolen_cores_late_steps_and_slow_links() -> None:
    link = MeasuredLink(
        node=1,
        asked_bits_per_second=1e9,
        sent_bits_per_second=9e8,
        received_bits_per_second=1e9,
        latency_seconds=1e-4,
    )
    slow = MeasuredNetwork(asked="1Gbps", nodes=(link,))
    fine: dict[str, Any] = {"busy_percent": 50.0, "stolen_percent": 2.0, "overrun": 0.01, "network": None}
    assert host_limits(**fine) == []
    assert host_limits(busy_percent=85, stolen_percent=4, overrun=0.05, network=slow) == [
        "cores were 85 % busy",
        "other machines on the same host had 4 % of the cores' time (steal)",
        "forward, backward and update made a step 5% longer than on the device",
        "the link of n1 carried 90% of the requested rate",
    ]
    assert host_limits(**{**fine, "busy_percent": None}) == ["the utilisation of the cores is unknown"]


@pytest.mark.parametrize(
    ("device", "workload", "published"),
    [
        ("2080ti", "resnet18", 74.31),
        ("lm6", "resnet18", 72.07),
        ("2080ti", "resnet101", 19.70),
        ("2080ti", "bert-base", 1798.73),
        ("v100", "vae", 12597.28),
        ("aws", "bert-base", 2269.57),
        ("p100", "resnet50", 219),
    ],
)
def test_published_devices_have_their_published_rates(device: str, workload: str, published: float) -> None:
    assert rate_of(device, workload).rate == published


def test_every_node_can_have_its_own_device() -> None:
    assert names_of("n0=emulated:2080ti,n1=emulated:v100", 2) == ("2080ti", "v100")
    with pytest.raises(SpecError, match="leaves n1 without a device"):
        names_of("n0=emulated:2080ti", 2)
    mixed = spec_of(workload="resnet18", device="n0=emulated:lm1,n1=emulated:aws", nodes=2, workers=2)
    assert [pace.units_per_second for pace in paces_of(mixed) if hasattr(pace, "units_per_second")] == [74.31, 90.2]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"device": "emulated:h100"}, "emulated:h100 is not known: use one of .*2080ti"),
        ({"device": "emulated:2080ti", "workload": "nmt"}, "No rate of nmt on 2080ti is published, only of resnet18"),
        ({"device": "emulated:rate=-1"}, "above 0"),
        ({"device": "emulated:rate=fast"}, "'fast' is not a number"),
        ({"device": "emulated:"}, "write emulated:2080ti"),
        ({"device": "n0=emulated:2080ti,n1=emulated:2080ti"}, "names n1: the only node is n0"),
        ({"device": "n0=emulated:2080ti,n0=emulated:v100"}, "gives n0 two devices"),
        ({"device": "n0=emulated:2080ti,v100"}, "names no node"),
        ({"slow_motion": 0}, "above 0"),
        ({"slow_motion": 1e9}, "from 0.001 to 10000"),
        ({"slow_motion": 2, "device": "cpu"}, "--slow-motion 2 needs emulated devices"),
        ({"validate": "end"}, "cannot be combined with emulated devices: they train no weights"),
        ({"steps": None, "epochs": 1}, "Use --steps"),
        ({"feed": "dataset:shard=off"}, "they read no data"),
        ({"workload": "resnet18:parameters=8"}, "go together"),
        ({"workload": "resnet18:parameters=8,tensors=9"}, "at least one parameter each"),
    ],
)
def test_what_cannot_be_emulated_is_refused_with_the_reason(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        plan(spec_of(**settings))


def test_emulated_devices_are_not_shared_and_have_no_cores() -> None:
    with pytest.raises(DeviceError, match="Give every worker its own"):
        plan(spec_of(workers=2, workers_per_device=2))
    with pytest.raises(DeviceError, match="no cores of their own"):
        plan(spec_of(cores_per_device=2))
    with pytest.raises(DataError, match="not a readable profile"):
        plan(spec_of(device="emulated:nowhere.json"))

"""Runs in a testbed: workers on their nodes, what they exchange on the links, and a record that says so."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed.faults import AtStep, cut_link_of, slow_link_of
from testbed.hosts_here import need_root_and_tools, real_testbed, sent_bytes

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan, site_settings
from paceline.errors import Hang, WorkerFailed, WorkerLost
from paceline.explain.verdict import account
from paceline.measure.runs import find
from paceline.record import Record
from paceline.record_parts import MeasuredLink
from paceline.spec import RunSpec
from paceline.testbed import hosts
from paceline.testbed.watch import LinkWatch

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[hosts.Testbed]:
    with real_testbed(2, "200Mbps") as made:
        yield made


def run(made: hosts.Testbed, out: Path, **settings: Any) -> Record:
    workers = settings.get("workers", 2)
    asked = {
        **site_settings(made.site),
        "workload": "faulty:faulty",
        "workers": 2,
        "workers_per_device": workers,
        "steps": 8,
    }
    engine = LocalEngine(made)
    return engine.run(plan(RunSpec.from_dict({**asked, **settings}), engine.site), out, NoDisplay())


@pytest.mark.parametrize("strategy", ["independent", "allreduce", "ps:servers=2"])
def test_what_a_strategy_says_it_sends_passes_the_links(
    strategy: str, two_nodes: hosts.Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[int] = []
    after: list[int] = []
    finished = LinkWatch.finished

    def counted(watch: LinkWatch) -> tuple[MeasuredLink, ...]:
        after.extend(map(sent_bytes, two_nodes.hosts))  # before links are measured again
        return finished(watch)

    monkeypatch.setattr(LinkWatch, "finished", counted)

    class Starting(NoDisplay):
        def ready(self, *, step: int, total_steps: int | None) -> None:
            before.extend(map(sent_bytes, two_nodes.hosts))  # links are measured and workers are joined by now

    settings = {"workload": "vae:samples=64", "batch": 2, "steps": 4, "validate": "off", "strategy": strategy}
    engine = LocalEngine(two_nodes)
    spec = RunSpec(workers=2, workers_per_device=2, nodes=2, network="200Mbps", **settings)  # type: ignore[arg-type]
    record = engine.run(plan(spec, engine.site), tmp_path, Starting())
    passed = [last - first for last, first in zip(after, before, strict=True)]
    assert [worker.node for worker in record.per_worker] == [0, 1]
    assert record.network is not None
    assert [link.asked_bits_per_second for link in record.network.nodes] == [200e6, 200e6]
    # A server on each node: half of what a worker sends, and half of what it receives, passes the links.
    claimed = 4 * record.traffic.sent_bytes_per_worker_and_step
    assert [server.node for server in record.servers] == ([0, 1] if strategy != "allreduce" else [])[
        : len(record.servers)
    ]
    for count in passed:
        assert claimed <= count <= 1.1 * claimed + 200_000


def test_workers_of_one_node_are_neighbours_and_the_rest_of_a_testbed_may_be_idle(tmp_path: Path) -> None:
    with real_testbed(3, "200Mbps") as made:
        record = run(made, tmp_path / "four", workers=4)
        assert [worker.node for worker in record.per_worker] == [0, 0, 1, 2]
        alone = run(made, tmp_path / "one", workers=1)
    assert (alone.spec.nodes, alone.spec.network, alone.network) == (1, None, None)


def test_slow_motion_slows_devices_and_links_alike_and_figures_are_divided_back(
    two_nodes: hosts.Testbed, tmp_path: Path
) -> None:
    sized = {
        "workload": "resnet18:image=32,samples=8,parameters=1000000,tensors=4",
        "batch": 8,
        "workers_per_device": 1,
    }
    settings = {"device": "emulated:rate=40", "strategy": "allreduce:overlap=off", "steps": 5, **sized}
    for slow_motion in (1.0, 2.0):
        record = run(two_nodes, tmp_path / str(slow_motion), slow_motion=slow_motion, **settings)
        assert record.network is not None
        assert [link.asked_bits_per_second for link in record.network.nodes] == [200e6, 200e6]
        # Half of it would be a rate that was not divided back.
        assert all(100e6 < link.sent_bits_per_second < 206e6 for link in record.network.nodes)
        at_least = 0.2 + 8 * 4e6 / 200e6  # a step of the device, and 4 MB each way
        assert at_least < record.step_seconds < 2 * at_least
        assert record.wall_seconds.training > 5 * at_least * slow_motion


def test_a_worker_that_is_lost_on_another_node_is_named(two_nodes: hosts.Testbed, tmp_path: Path) -> None:
    with pytest.raises(WorkerLost, match="Worker 1 was killed by SIGKILL"):
        run(two_nodes, tmp_path, workload="faulty:faulty:kind=kill,rank=1,step=3", strategy="ps", steps=100_000)


SMALL: dict[str, Any] = {
    "workload": "vae:data=generated,samples=640,channels=2,hidden=16",
    "batch": 4,
    "validate": "off",
}


def test_a_cut_link_is_named_and_no_worker_is_blamed_and_the_next_run_has_it_back(tmp_path: Path) -> None:
    with real_testbed(3, "100Mbps") as made:
        engine = LocalEngine(made)
        asked = {**site_settings(made.site), **SMALL, "workers": 3, "workers_per_device": 3}
        spec = RunSpec.from_dict({**asked, "steps": 100_000, "timeout": 4.0})
        cutting = AtStep(3, lambda: cut_link_of(made, 2))
        with pytest.raises(Hang) as hang:
            engine.run(plan(spec, engine.site), tmp_path / "cut", cutting)
        first, *others = str(hang.value).splitlines()
        assert re.match(r"The link of n2 carried nothing for \d+ s: it is cut\.", first)
        assert re.match(r"Worker \d made no progress for \d+ s after step \d+; it is in exchange\.", others[0])
        assert "--timeout" not in str(hang.value)
        assert "hostname" not in str(hang.value)  # what torch says of every host of a testbed
        again = engine.run(plan(RunSpec.from_dict({**asked, "steps": 4}), engine.site), tmp_path / "again", NoDisplay())
    assert again.network is not None
    for link in again.network.nodes:
        assert link.use is not None
        assert link.use.sent_bytes > 4 * again.traffic.sent_bytes_per_worker_and_step
        assert link.after is not None
        assert link.after.received_bits_per_second > 50e6


def test_a_link_that_is_slowed_during_a_run_is_the_verdict_of_explain(tmp_path: Path) -> None:
    with real_testbed(3, "100Mbps") as made:
        engine = LocalEngine(made)
        asked = {**site_settings(made.site), **SMALL, "workers": 3, "workers_per_device": 3, "steps": 30}
        slowing = AtStep(1, lambda: slow_link_of(made, 1, 4e6))
        record = engine.run(plan(RunSpec.from_dict(asked), engine.site), tmp_path, slowing)
    assert record.network is not None
    after = [link.after.sent_bits_per_second for link in record.network.nodes if link.after is not None]
    assert after[1] < 5e6 < 50e6 < min(after[0], after[2])
    assert any("The link of n1 carried" in warning for warning in record.warnings)
    (explanation,) = account(find([tmp_path])).explanations
    assert explanation.leading is not None
    assert explanation.leading.name == "slow link"
    assert explanation.verdict.startswith("Slow link: the link of n1 carried")
    assert "the link of n1" in explanation.remedy


def test_a_worker_that_fails_in_a_testbed_ends_with_its_own_error(two_nodes: hosts.Testbed, tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed) as failed:
        run(two_nodes, tmp_path, workload="faulty:faulty:kind=raise,rank=1,step=3")
    assert str(failed.value).splitlines()[-1].strip() == "RuntimeError: the road ends here"
    assert "hostname" not in str(failed.value)


def test_a_slow_worker_of_a_testbed_is_not_the_links_fault(two_nodes: hosts.Testbed, tmp_path: Path) -> None:
    with pytest.raises(Hang, match=r"Worker 1 made no progress .* raise --timeout"):
        run(two_nodes, tmp_path, workload="faulty:faulty:kind=sleep,rank=1,step=3", timeout=3.0)


def test_network_is_an_axis_of_a_study(tmp_path: Path) -> None:
    need_root_and_tools()
    command = ["testbed", "--nodes", "2", "--bandwidth", "1Gbps", "--", "study", "faulty:faulty", "--workers", "1,2"]
    more = ["--workers-per-device", "fit", "--network", "50Mbps", "--network", "100Mbps", "--steps", "6", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "paceline", *command, *more, "--out", "mine"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["workers"], row["nodes"], row["network"]) for row in rows if row["strategy"] == "allreduce"] == [
        (1, 1, None),
        (2, 2, "50Mbps"),
        (2, 2, "100Mbps"),
    ]
    for row in rows:
        for folder in row["records"]:
            network = Record.load(tmp_path / folder).network
            assert (network.asked if network else None) == row["network"]

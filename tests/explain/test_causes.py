"""Situations with a known cause: it is named, with the right worker and the right time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from explain.situations import ALONE, USUAL, Situation, alone, write

from paceline.explain.cause import Cause
from paceline.explain.verdict import Explanation, account
from paceline.measure.runs import find


def explain(folder: Path, situation: Situation, *others: Situation, series: bool = True) -> Explanation:
    """The explanation of the first situation; the others are there to be compared with."""
    folders = [write(folder / str(n), s, series=series) for n, s in enumerate((situation, *others))]
    explanations = account(find(folders)).explanations
    return next(e for e in explanations if e.case.setting.runs[0].folder == folders[0])


def named(explanation: Explanation, name: str) -> Cause | None:
    return next((cause for cause in explanation.causes if cause.name == name), None)


@pytest.mark.parametrize("series", [True, False])
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("phase", ["input", "forward", "backward"])
def test_a_worker_slowed_by_50_ms_is_named_with_its_phase_and_the_time(
    tmp_path: Path, phase: str, workers: int, series: bool
) -> None:
    slow = workers - 1
    situation = Situation(workers=workers, longer={slow: {phase: 0.050}}, noise=0.004)
    explanation = explain(tmp_path, situation, series=series)
    leading = explanation.leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("straggler", slow)
    assert leading.seconds == pytest.approx(0.050, rel=0.1)
    assert f"worker {slow} (cpu:{slow})" in explanation.verdict
    assert f"its {phase} takes" in explanation.verdict


def test_a_slow_workers_own_time_is_not_also_called_slow_input(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(longer={0: {"input": 0.050}}))
    assert explanation.case.setting.phases.input == pytest.approx(0.027)
    input_cause = named(explanation, "input")
    assert input_cause is not None
    assert input_cause.seconds == pytest.approx(USUAL["input"], abs=1e-6)


def test_a_worker_that_finishes_the_exchange_late_is_named_by_it(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(longer={1: {"exchange": 0.040}}))
    leading = explanation.leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("straggler", 1)
    assert leading.seconds == pytest.approx(0.040, rel=0.1)
    assert "its exchange takes 40.0 ms longer" in leading.sentence


def test_two_slow_workers_are_both_named_and_compared_with_the_punctual_ones(tmp_path: Path) -> None:
    delays = {5: {"backward": 0.050}, 6: {"backward": 0.048}}
    explanation = explain(tmp_path, Situation(workers=8, longer=delays, noise=0.001))
    leading = explanation.leading
    assert leading is not None
    assert leading.rank == 5
    assert leading.seconds == pytest.approx(0.050, rel=0.1)
    assert any("worker 6 (cpu:6)" in line for line in leading.evidence)


def test_workers_that_take_turns_at_being_last_are_spread_and_nobody_is_blamed(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(workers=8, noise=0.015, steps=200))
    leading = explanation.leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("spread", None)
    assert leading.seconds == pytest.approx(0.015 * 1.42, rel=0.1), "the expected maximum of eight is 1.42 deviations"
    assert named(explanation, "straggler") is None


def test_from_a_few_steps_nobody_is_called_slow(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(longer={1: {"backward": 0.050}}, steps=6))
    assert named(explanation, "straggler") is None
    assert any("Only 1 step timed" in note for note in explanation.notes)


@pytest.mark.parametrize("milliseconds", [20, 50, 200])
def test_a_loader_slowed_by_a_known_time_is_input_with_that_time(tmp_path: Path, milliseconds: int) -> None:
    slowed = Situation(phases={**USUAL, "input": USUAL["input"] + milliseconds / 1e3}, noise=0.002)
    explanation = explain(tmp_path, slowed)
    leading = explanation.leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("input", None)
    assert leading.seconds == pytest.approx(milliseconds / 1e3 + USUAL["input"], rel=0.01)
    assert explanation.verdict.startswith("Input-bound: ")


@pytest.mark.parametrize(
    ("feed", "remedy"),
    [
        ("dataset", "--feed dataset:prefetch=2,loaders=1"),
        ("dataset:shard=off,loaders=1", "--feed dataset:shard=off,loaders=1,prefetch=2"),
        ("dataset:prefetch=4,loaders=2", "--feed dataset:prefetch=4,loaders=4"),
        ("synthetic:at=host", "--feed synthetic:at=host,prefetch=2"),
        ("synthetic:at=python,prefetch=2", "--feed synthetic:at=python,prefetch=2,loaders=2"),
    ],
)
def test_the_remedy_for_slow_input_is_a_feed_that_exists(tmp_path: Path, feed: str, remedy: str) -> None:
    from paceline.feeds.catalogue import check

    explanation = explain(tmp_path, Situation(phases={**USUAL, "input": 0.05}, spec={"feed": feed}))
    assert remedy in explanation.remedy
    check(remedy.removeprefix("--feed "))


@pytest.mark.parametrize("milliseconds", [20, 80])
def test_an_exchange_slowed_by_a_known_time_is_exposed_exchange_with_that_time(
    tmp_path: Path, milliseconds: int
) -> None:
    slowed = Situation(phases={**USUAL, "exchange": milliseconds / 1e3}, noise=0.001)
    alone_too = explain(tmp_path / "alone", slowed)
    against = explain(tmp_path / "against", slowed, alone())
    for explanation in (alone_too, against):
        leading = explanation.leading
        assert leading is not None
        assert leading.name == "exchange"
        assert leading.seconds == pytest.approx(milliseconds / 1e3, rel=0.05)


LINKS: dict[str, dict[str, Any]] = {
    "latency": {"buckets": [100_000, 400_000, 200_000, 300_000], "latency": 0.020, "bandwidth": 1e9},
    "bandwidth": {"buckets": [1_000_000, 4_000_000, 2_000_000, 3_000_000], "latency": 0.0001, "bandwidth": 5e7},
}


@pytest.mark.parametrize("series", [True, False])
@pytest.mark.parametrize("bound", LINKS)
def test_latency_and_bandwidth_are_told_apart_by_buckets_of_different_sizes(
    tmp_path: Path, bound: str, series: bool
) -> None:
    explanation = explain(tmp_path, Situation(phases={**USUAL, "exchange": 0.0}, **LINKS[bound]), series=series)
    exchange = named(explanation, "exchange")
    assert exchange is not None
    assert f"mostly {bound}" in exchange.sentence
    assert ("bucket=500KB" if bound == "latency" else "bf16+allreduce") in exchange.remedy
    assert any("overlap with backward" in line for line in exchange.evidence)


def test_an_exchange_that_fills_a_measured_link_is_not_called_latency(tmp_path: Path) -> None:
    buckets = [4_000_000, 1_000_000, 2_000_000]  # that all took as long, as those do that share a link
    link = {
        "node": 0,
        "asked_bits_per_second": 1e9,
        "sent_bits_per_second": 1e9,
        "received_bits_per_second": 8e8,
        "latency_seconds": 1e-5,
    }
    found = {}
    for name, record in (("unknown", {}), ("known", {"network": {"asked": "1Gbps", "nodes": [link]}})):
        situation = Situation(
            phases={**USUAL, "exchange": 0.0},
            buckets=buckets,
            latency=0.024,
            bandwidth=1e12,
            record={**record, "traffic": {"sent_bytes_per_worker_and_step": 7_000_000}},
        )
        exchange = named(explain(tmp_path / name, situation), "exchange")
        assert exchange is not None
        found[name] = exchange
    assert "mostly latency" in found["unknown"].sentence
    assert "mostly bandwidth" in found["known"].sentence
    assert "bf16+allreduce" in found["known"].remedy
    # 7 MB · 1514/1448 at 800 Mbit/s
    assert any("7.319 MB" in line and "73.2 ms at the 800 Mbit/s" in line for line in found["known"].evidence)


def test_exchange_that_may_not_overlap_is_advised_to(tmp_path: Path) -> None:
    spec = {"strategy": "bf16+allreduce:overlap=off"}
    explanation = explain(tmp_path, Situation(phases={**USUAL, "exchange": 0.03}, spec=spec))
    assert "`--strategy bf16+allreduce`" in explanation.remedy


def test_cores_that_others_use_are_told_from_memory_by_cpu_time(tmp_path: Path) -> None:
    slower = {**USUAL, "forward": 0.045, "backward": 0.090, "exchange": 0.0}
    own = sum(ALONE.values())
    taken = explain(tmp_path / "taken", Situation(phases=slower, cpu=own, outside_percent=30.0), alone())
    memory = explain(tmp_path / "memory", Situation(phases=slower), alone())
    for explanation, name, other in (
        (taken, "shared cores", "caches and memory"),
        (memory, "caches and memory", "shared cores"),
    ):
        leading = explanation.leading
        assert leading is not None
        assert leading.name == name
        assert leading.seconds == pytest.approx(0.045, rel=0.05)
        assert named(explanation, other) is None
    assert any("cpu:0 30 %" in line for line in taken.evidence)


def test_a_core_taken_by_others_shows_in_a_single_record(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(cpu=0.060, outside_percent=35.0))
    assert explanation.leading is not None
    assert explanation.leading.name == "shared cores"
    assert explanation.leading.seconds == pytest.approx(0.030), "forward and backward less CPU time"


def test_computing_that_is_blocked_on_a_free_core_blames_nobody_else(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(cpu=0.060))
    assert explanation.leading is not None
    assert explanation.leading.name == "blocked"
    assert explanation.leading.seconds == pytest.approx(0.030)


def test_the_run_queue_tells_a_sleeper_from_one_who_lacks_a_core(tmp_path: Path) -> None:
    busy = Situation(cpu=0.060, outside_percent=35.0)  # others keep the core busy either way
    sleeper = explain(tmp_path / "sleeper", replace(busy, queued=0.0))
    starved = explain(tmp_path / "starved", replace(busy, queued=0.033))
    assert sleeper.leading is not None
    assert starved.leading is not None
    assert (sleeper.leading.name, starved.leading.name) == ("blocked", "shared cores")
    assert [sleeper.leading.seconds, starved.leading.seconds] == pytest.approx([0.030, 0.030])
    assert any("queued for 33.0 ms" in line for line in starved.leading.evidence)


def test_a_core_that_another_machine_has_is_missed_though_nobody_queues_for_it(tmp_path: Path) -> None:
    stolen = Situation(cpu=0.060, queued=0.0, outside_percent=35.0, stolen_percent=35.0)
    leading = explain(tmp_path, stolen).leading
    assert leading is not None
    assert leading.name == "shared cores"
    assert leading.seconds == pytest.approx(0.030)
    assert "other virtual machines on the same host" in leading.sentence
    assert "Stop other processes" not in leading.remedy
    assert any("(steal): cpu:0 35 %" in line for line in leading.evidence)


@pytest.mark.parametrize(
    ("changes", "who"),
    [
        ({"spec": {"workers_per_device": 2}, "cpu": 0.030, "outside_percent": 9.0}, "2 workers share each one"),
        ({"spec": {"workers_per_device": 2}, "cpu": 0.030, "outside_percent": 40.0}, "other processes use it"),
        (
            {
                "workers": 1,
                "spec": {"strategy": "ps:place=shared"},
                "servers": [{"server": 0, "device": "cpu:0", "place": "shared", "utilisation_percent": 38.0}],
                "cpu": 0.060,
                "outside_percent": 40.0,
            },
            "parameter servers share it",
        ),
    ],
)
def test_who_has_the_cores_is_told(tmp_path: Path, changes: dict[str, Any], who: str) -> None:
    cause = named(explain(tmp_path, Situation(**changes)), "shared cores")
    assert cause is not None
    assert who in cause.sentence


def test_backward_slowed_more_than_forward_is_the_exchanges_own_work(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(phases={**USUAL, "backward": 0.080}), alone())
    assert explanation.leading is not None
    assert explanation.leading.name == "exchange work in backward"
    assert explanation.leading.seconds == pytest.approx(0.020)


def test_devices_that_only_serve_are_part_of_the_gap(tmp_path: Path) -> None:
    servers = [{"server": 0, "device": "cpu:1", "cores": [1], "place": "own", "utilisation_percent": 40.0}]
    spec = {"strategy": "ps:servers=1,place=own"}
    explanation = explain(tmp_path, Situation(workers=1, devices=2, servers=servers, spec=spec), alone())
    assert explanation.leading is not None
    assert explanation.leading.name == "servers' devices"
    assert explanation.leading.seconds == pytest.approx(sum(ALONE.values()) / 2)
    exchange = named(explanation, "exchange")
    assert exchange is not None
    assert "Servers use 40 % of their cores." in exchange.evidence
    assert "servers=2" in exchange.remedy


def test_what_a_staleness_bound_holds_back_is_named(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(held=0.030, spec={"strategy": "ps:mode=stale,bound=2"}))
    held = named(explanation, "staleness bound")
    assert held is not None
    assert held.seconds == pytest.approx(0.030)
    assert "bound=4" in held.remedy


def test_without_a_barrier_a_slow_worker_costs_its_own_steps_only(tmp_path: Path) -> None:
    situation = Situation(longer={1: {"forward": 0.040}}, spec={"strategy": "independent"}, phases=ALONE)
    explanation = explain(tmp_path, situation)
    slow = named(explanation, "straggler")
    assert slow is not None
    assert slow.rank == 1
    assert slow.seconds == pytest.approx(0.020)
    assert "40.0 ms longer" in slow.sentence


def test_a_heavy_update_is_named(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(phases={**USUAL, "update": 0.040}))
    assert explanation.leading is not None
    assert explanation.leading.name == "update"
    assert explanation.leading.seconds == pytest.approx(0.040)


def test_a_sound_run_is_called_compute_bound(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(noise=0.001))
    assert explanation.leading is None
    assert explanation.verdict.startswith("Compute-bound: forward and backward are 90 % of a step.")


def test_a_worker_alone_shares_nothing_so_its_strategy_is_named(tmp_path: Path) -> None:
    slower = {**ALONE, "forward": 0.045, "backward": 0.090}
    explanation = explain(tmp_path, Situation(workers=1, phases=slower), alone())
    assert named(explanation, "caches and memory") is None
    assert named(explanation, "the strategy's own work") is not None


def links(*after: float | None, before: float = 100e6, asked: tuple[float, ...] = ()) -> dict[str, Any]:
    """The links of a record: as they were before a run, and after it where that was measured."""
    nodes = []
    for node, rate in enumerate(after):
        own = asked[node] if asked else before
        rates = {"sent_bits_per_second": own, "received_bits_per_second": own, "latency_seconds": 1e-5}
        again = None if rate is None else {**rates, "sent_bits_per_second": rate}
        use = {"sent_bytes": 60 * 50_000, "received_bytes": 60 * 40_000, "dropped_packets": 7}
        nodes.append({"node": node, "asked_bits_per_second": own, **rates, "use": use, "after": again})
    return {"network": {"asked": "100Mbps", "nodes": nodes}, "learning": {"updates": 60}}


def across(exchange: float, record: dict[str, Any], **changes: Any) -> Situation:
    spec = {"nodes": 2, "network": "100Mbps"}
    return Situation(phases={**USUAL, "exchange": exchange}, spec=spec, record=record, **changes)


def test_a_link_that_became_slower_is_the_cause_and_its_bytes_at_the_old_rate_are_not(tmp_path: Path) -> None:
    explanation = explain(tmp_path, across(0.044, links(100e6, 10e6)))
    leading = explanation.leading
    assert leading is not None
    assert leading.name == "slow link"
    assert leading.seconds == pytest.approx(0.044 - 0.004)  # 50 kB take 4 ms at 100 Mbit/s
    assert "the link of n1 carried 100 Mbit/s before the run and 10 Mbit/s after it" in explanation.verdict
    assert "It dropped 7 packets during the run." in explanation.evidence
    rest = named(explanation, "exchange")
    assert rest is not None
    assert rest.seconds == pytest.approx(0.004)


def test_a_worker_that_is_late_behind_a_slow_link_is_not_called_a_straggler(tmp_path: Path) -> None:
    behind = across(0.004, links(100e6, 10e6), longer={1: {"exchange": 0.040}})
    explanation = explain(tmp_path, behind)
    assert [cause.name for cause in explanation.causes if cause.name in ("straggler", "slow link")] == ["slow link"]
    assert explanation.causes[0].seconds == pytest.approx(0.040, rel=0.1)


def test_a_worker_that_is_slow_itself_is_still_the_straggler_beside_a_slow_link(tmp_path: Path) -> None:
    explanation = explain(tmp_path, across(0.044, links(100e6, 10e6), longer={0: {"forward": 0.100}}))
    assert [cause.name for cause in explanation.causes[:2]] == ["straggler", "slow link"]


def test_a_link_that_is_slower_than_the_others_by_request_is_named_with_their_rate(tmp_path: Path) -> None:
    asked = (100e6, 20e6, 100e6)
    explanation = explain(tmp_path, across(0.044, links(*asked, asked=asked), workers=3))
    assert "Slow link: the link of n1 carries 20 Mbit/s, the others 100 Mbit/s" in explanation.verdict
    assert explanation.remedy == "Give n1 a link like the others', or leave that node out."


@pytest.mark.parametrize("after", [(100e6, 97e6), (None, None), (30e6, 31e6)])
def test_links_that_are_alike_are_no_cause_also_where_a_busy_machine_slows_all(
    tmp_path: Path, after: tuple[float | None, ...]
) -> None:
    explanation = explain(tmp_path, across(0.044, links(*after)))
    assert named(explanation, "slow link") is None
    assert explanation.leading is not None
    assert explanation.leading.name == "exchange"

"""What-if answers: from records as runs leave them to a curve with its band, its knee and its limits."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from explain.situations import ALONE, USUAL, Situation, alone, write

from paceline.errors import DataError, SpecError
from paceline.project.curve import Point, Projected, ProjectedCurve
from paceline.project.questions.break_even import break_even
from paceline.project.questions.whatif import Measured, Question, curve
from paceline.project.simulation.calibrate import MESSAGE_SECONDS, fit_host, fit_network
from paceline.project.simulation.grouping import Gradient
from paceline.project.simulation.network import HostCost, Layout, LinkModel, SimulatedNetwork
from paceline.project.simulation.profile_step import StepProfile, profile_of
from paceline.project.simulation.simulate import SimulatedSetting, simulate
from paceline.record import Record
from paceline.traffic import catalogue

MS = 1e-3
# In order of registration; the last one is ready first, and the first one when backward (60 ms) ends.
GRADIENTS: list[dict[str, Any]] = [
    {"name": "a", "bytes": 2_000_000, "ready_seconds": 60 * MS},
    {"name": "b", "bytes": 1_000_000, "ready_seconds": 40 * MS},
    {"name": "c", "bytes": 3_000_000, "ready_seconds": 20 * MS},
]
NETWORK = SimulatedNetwork(between=LinkModel(125e6, 50e-6))


def made(folder: Path, situation: Situation) -> Record:
    with_gradients = {"gradients": GRADIENTS, **situation.record}
    run = write(folder / "run", replace(situation, record=with_gradients), series=False)
    return Record.load(run)


def two(folder: Path, *, host: HostCost, strategy: str = "allreduce:bucket=500KB", **record: Any) -> Record:
    """A run of two workers whose exchange costs exactly what `host` says, and nothing else."""
    truth = profile_of([made(folder / "truth", alone())])
    step = simulate(truth, SimulatedSetting(strategy=catalogue.resolve(strategy), layout=Layout(2, 2), host=host))
    phases = {**USUAL, "backward": step.backward_seconds, "exchange": step.exchange_seconds}
    return made(folder / "two", Situation(phases=phases, spec={"strategy": strategy}, record=record))


def at(measured: Measured, workers: int, **question: Any) -> Projected:
    (found,) = curve(measured, [Point(workers=workers, nodes=None, batch=None)], Question(**question)).points
    return found


def known(figure: float | None) -> float:
    """A figure that must be there."""
    assert figure is not None
    return figure


def test_what_was_measured_is_answered_with_what_was_measured(tmp_path: Path) -> None:
    record = two(tmp_path, host=HostCost(1e-9, 0.0))
    found = at(Measured.of_records([record]), 2)
    assert found.step_seconds == pytest.approx(record.step_seconds, rel=1e-9)
    assert found.throughput == pytest.approx(record.throughput.value, rel=1e-9)


@pytest.mark.parametrize("strategy", ["allreduce:bucket=500KB", "allreduce:overlap=off", "ps:place=shared"])
def test_the_work_of_an_exchange_is_found_in_the_step_it_lengthens(tmp_path: Path, strategy: str) -> None:
    host = HostCost(pass_seconds_per_byte=1e-9, message_seconds=MESSAGE_SECONDS)
    records = [made(tmp_path, alone()), two(tmp_path / "run-of", host=host, strategy=strategy)]
    found = fit_host(records)
    assert found is not None
    assert found.pass_seconds_per_byte == pytest.approx(host.pass_seconds_per_byte, rel=1e-6)


def on_links(folder: Path, share: float, strategy: str, rate: float = 1e8) -> Record:
    """A run of two workers on two nodes whose exchange used this share of links of so many bits a second."""
    truth = profile_of([made(folder / "truth", alone())])
    network, layout = SimulatedNetwork(between=LinkModel(share * rate / 8, 1e-4)), Layout.even(2, 2)
    step = simulate(truth, SimulatedSetting(strategy=catalogue.resolve(strategy), layout=layout, network=network))
    phases = {**USUAL, "backward": step.backward_seconds, "exchange": step.exchange_seconds}
    ways = {f"{way}_bits_per_second": rate for way in ("asked", "sent", "received")}
    links = {"asked": "100Mbps", "nodes": [{"node": n, "latency_seconds": 1e-4, **ways} for n in (0, 1)]}
    record = made(folder / "two", Situation(phases=phases, spec={"strategy": strategy}, record={"network": links}))
    workers = tuple(replace(worker, node=rank) for rank, worker in enumerate(record.per_worker))
    return replace(record, per_worker=workers)


@pytest.mark.parametrize("strategy", ["allreduce:bucket=500KB", "allreduce:overlap=off", "ps:place=shared"])
def test_links_that_were_measured_are_taken_with_the_share_that_the_exchange_used(
    tmp_path: Path, strategy: str
) -> None:
    records = [made(tmp_path, alone()), on_links(tmp_path / "run-of", 0.8, strategy)]
    measured = Measured.of_records(records)
    assert measured.network is not None
    assert measured.network.between.bytes_per_second == pytest.approx(0.8 * 1e8 / 8, rel=1e-3)
    assert at(measured, 2).step_seconds == pytest.approx(records[1].step_seconds, rel=1e-3)
    twelve = at(measured, 12)
    assert twelve.point.nodes == 12  # as many workers to a node as were measured
    assert twelve.step_seconds is not None
    assert twelve.step_seconds > records[1].step_seconds


def test_an_exchange_that_was_hidden_says_nothing_about_the_links(tmp_path: Path) -> None:
    records = [made(tmp_path, alone()), on_links(tmp_path / "run-of", 0.5, "allreduce:bucket=500KB", rate=1e12)]
    network = fit_network(records)
    assert network is not None
    assert network.between.bytes_per_second == pytest.approx(0.92 * 1e12 / 8)


def test_other_settings_follow_from_one_record(tmp_path: Path) -> None:
    host = HostCost(pass_seconds_per_byte=1e-9, message_seconds=MESSAGE_SECONDS)
    alone_too = made(tmp_path, alone())
    measured = Measured.of_records([alone_too, two(tmp_path / "a", host=host)])
    for number, strategy in enumerate(("allreduce:packs=3", "bf16+allreduce", "ps:place=shared")):
        truth = two(tmp_path / str(number), host=host, strategy=strategy)
        assert at(measured, 2, strategy=strategy).step_seconds == pytest.approx(truth.step_seconds, rel=1e-6)


def test_without_one_worker_alone_half_of_the_hidden_exchange_is_taken_to_have_slowed_backward(tmp_path: Path) -> None:
    overlap = {"busy": 24 * MS, "hidden": 20 * MS, "exposed": 4 * MS}
    record = made(tmp_path, Situation(record={"overlap": overlap}))
    assert profile_of([record]).backward_seconds == pytest.approx(USUAL["backward"] - 10 * MS)


def test_gradients_are_ready_in_proportion_to_backwards_own_work(tmp_path: Path) -> None:
    record = two(tmp_path, host=HostCost(2e-9, 0.0))
    profile = profile_of([made(tmp_path, alone()), record])
    assert profile.backward_seconds == pytest.approx(ALONE["backward"], rel=1e-6)
    assert [g.ready_seconds for g in profile.gradients] == pytest.approx([60 * MS, 40 * MS, 20 * MS], rel=1e-6)


def test_the_wait_says_how_workers_spread(tmp_path: Path) -> None:
    record = made(tmp_path, Situation(noise=8 * MS, steps=400))
    assert profile_of([record]).spread_seconds == pytest.approx(8 * MS, rel=0.15)
    wait = simulate(
        profile_of([record]), SimulatedSetting(strategy=catalogue.resolve("allreduce"), layout=Layout(2, 2))
    )
    assert wait.wait_seconds == pytest.approx(record.phases.wait)


def test_links_are_found_in_the_buckets_where_no_core_moves_the_bytes(tmp_path: Path) -> None:
    # Two workers: seconds of a bucket = 2 · latency + bytes / bandwidth.
    buckets, end = [], 0.0
    for number, size in enumerate((10_000, 1_000_000, 5_000_000)):
        start, end = end, end + 2 * 1e-3 + size / 1e8
        moments = {"ready_seconds": start, "start_seconds": start, "end_seconds": end}
        buckets.append({"bucket": number, "bytes": size, **moments})
    record = made(tmp_path, Situation(environment={"device_kind": "cuda"}, record={"buckets": buckets}))
    assert fit_host([record]) is None
    network = fit_network([record])
    assert network is not None
    assert network.inside.latency_seconds == pytest.approx(1e-3, rel=1e-6)
    assert network.inside.bytes_per_second == pytest.approx(1e8, rel=1e-6)


def at_batches(folder: Path, batches: Sequence[int]) -> list[Record]:
    """One worker alone: forward and backward take 30 ms, and 7.5 ms for each sample."""
    records = []
    for batch in batches:
        growth = (30 + 7.5 * batch) / (30 + 7.5 * 8)
        phases: Mapping[str, float] = {**ALONE, "forward": 0.03 * growth, "backward": 0.06 * growth}
        records.append(made(folder / str(batch), alone(samples=batch, phases=phases)))
    return records


def test_computing_grows_with_the_batch_as_records_at_two_batches_say(tmp_path: Path) -> None:
    profile = profile_of(at_batches(tmp_path, [8, 4])).at_batch(16)
    truth = at_batches(tmp_path / "truth", [16])[0]
    assert profile.forward_seconds == pytest.approx(truth.phases.forward, rel=1e-6)
    assert profile.backward_seconds == pytest.approx(truth.phases.backward, rel=1e-6)
    assert not [w for w in profile.warnings if "proportional" in w]


def test_with_records_at_one_batch_computing_is_proportional_and_the_answer_says_so(tmp_path: Path) -> None:
    measured = Measured.of_records(at_batches(tmp_path, [8]))
    found = curve(measured, [Point(workers=1, nodes=None, batch=16)], Question())
    assert found.points[0].step_seconds == pytest.approx(2 * (0.03 + 0.06 + 0.002) + 0.003 + 0.0005)
    assert found.points[0].point.batch == 16
    assert any("proportional" in warning for warning in found.warnings)


def test_a_faster_device_shortens_computing_and_the_work_of_an_exchange(tmp_path: Path) -> None:
    measured = Measured.of_records([made(tmp_path, alone()), two(tmp_path / "a", host=HostCost(1e-9, 0.0))])
    usual, faster = at(measured, 2), at(measured, 2, device_speed=2.0)
    assert faster.step_seconds == pytest.approx((known(usual.step_seconds) + USUAL["input"]) / 2, rel=1e-6)


def test_a_feed_that_set_the_pace_can_be_made_faster(tmp_path: Path) -> None:
    phases = {**USUAL, "input": 0.1}
    record = made(tmp_path, Situation(phases=phases, spec={"feed": "dataset:prefetch=2"}))
    measured = Measured.of_records([record])
    assert at(measured, 2).limit == "feed"
    assert at(measured, 2).step_seconds == pytest.approx(record.step_seconds)
    assert at(measured, 2, feed_speed=1.25).step_seconds == pytest.approx(record.step_seconds / 1.25)
    unbound = at(measured, 2, feed_speed=100.0)
    assert unbound.step_seconds == pytest.approx(record.step_seconds - 0.1)
    assert unbound.limit == "compute"


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    return Measured.of_records([made(tmp_path, alone()), two(tmp_path / "a", host=HostCost(2e-10, MESSAGE_SECONDS))])


def test_points_come_back_in_the_order_asked_with_their_nodes(measured: Measured) -> None:
    asked = [Point(workers=8, nodes=2, batch=None), Point(workers=1, nodes=None, batch=None)]
    found = curve(measured, asked, Question(network=NETWORK))
    assert [(p.point.workers, p.point.nodes, p.point.batch) for p in found.points] == [(8, 2, 8), (1, 1, 8)]
    assert found.law == "simulation"
    assert found.validated_on


def test_the_band_holds_the_value_and_widens_with_distance(measured: Measured) -> None:
    points = [Point(workers=2**k, nodes=None, batch=None) for k in range(1, 11)]
    found = curve(measured, points, Question(network=NETWORK)).points
    for p in found:
        figures = [known(figure) for figure in (p.low95, p.low80, p.throughput, p.high80, p.high95)]
        assert all(lower < higher for lower, higher in pairwise(figures))
    widths = [math.log(known(p.high80) / known(p.low80)) for p in found]
    assert widths == sorted(widths)
    assert widths[-1] > 1.5 * widths[0]


def test_several_nodes_without_a_network_are_refused_with_the_flag(measured: Measured) -> None:
    with pytest.raises(SpecError, match="--network"):
        at(measured, 8, workers_per_node=2)


def test_more_workers_than_the_machine_has_are_answered_with_a_warning(measured: Measured) -> None:
    found = curve(measured, [Point(workers=64, nodes=None, batch=None)], Question())
    assert any("2 devices" in warning for warning in found.warnings)


@pytest.mark.parametrize("changes", [{"device_speed": 0.0}, {"feed_speed": math.inf}, {"workers_per_node": 0}])
def test_questions_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="not valid"):
        Question(**changes)


def test_an_unknown_strategy_is_refused_with_the_nearest(measured: Measured) -> None:
    with pytest.raises(SpecError, match="allreduce"):
        at(measured, 2, strategy="alreduce")


def test_the_knee_is_where_doublings_stop_bringing_half_and_weak_ones_before_are_named(measured: Measured) -> None:
    def found(latency: float) -> ProjectedCurve:
        asked = Question(network=SimulatedNetwork(between=LinkModel(2e7, latency)))
        return curve(measured, [Point(workers=n) for n in (1, 256, 512)], asked)

    steady = found(2e-4)
    assert steady.knee_workers is None, "what a ring sends hardly grows, so doublings pay once the first is made"
    assert steady.weak_doublings
    knee = found(2e-2).knee_workers
    assert knee is not None
    rates = {p.point.workers: p.throughput or 0 for p in found(2e-2).points}
    assert knee < 256
    assert rates[512] < 1.5 * rates[256]


def test_the_knee_of_points_that_divide_a_batch_is_that_of_the_divided_batch(measured: Measured) -> None:
    asked = Question(network=SimulatedNetwork(between=LinkModel(1e10, 1e-5)))
    divided = [Point(workers=n, nodes=None, batch=64 / n) for n in (1, 2, 4, 8, 16, 32)]
    whole = [Point(workers=n, nodes=None, batch=None) for n in (1, 2, 4, 8, 16, 32)]
    found = curve(measured, divided, asked)
    rates = {p.point.workers: known(p.throughput) for p in found.points}
    assert found.knee_workers is not None
    assert all((rates[2 * n] < 1.5 * rates[n]) == (n >= found.knee_workers) for n in (1, 2, 4, 8, 16))
    assert curve(measured, whole, asked).knee_workers is None


def test_without_an_exchange_there_is_no_knee(measured: Measured) -> None:
    asked = Question(strategy="independent")
    assert curve(measured, [Point(workers=256, nodes=None, batch=None)], asked).knee_workers is None


def test_the_break_even_of_a_ring_and_a_server_is_where_algebra_says(measured: Measured) -> None:
    # Four nodes, S = 6 MB, latency L = 10 ms, bandwidth B. Ring: 6 L + 1.5 S/B. Server with a link of its own: L and
    # 4 S/B there, L for go, L for apply, L and 4 S/B back. Equal at 2 L = 6.5 S/B.
    free = replace(measured, host=HostCost())
    question = Question(network=SimulatedNetwork(between=LinkModel(1e9, 10 * MS)))
    pair = ("allreduce:overlap=off", "ps:place=own")
    found = break_even(free, Point(workers=4, nodes=4, batch=None), question, pair)
    assert found.bytes_per_second == pytest.approx(6.5 * 6e6 / (2 * 10 * MS), rel=1e-6)
    assert (found.faster_below, found.faster_above) == pair


def test_where_one_strategy_always_sends_less_there_is_no_break_even(measured: Measured) -> None:
    pair = ("allreduce", "bf16+allreduce")
    free = replace(measured, host=HostCost())
    found = break_even(free, Point(workers=4, nodes=4, batch=None), Question(network=NETWORK), pair)
    assert found.bytes_per_second is None
    assert found.faster_below == found.faster_above == "bf16+allreduce"


def test_a_break_even_needs_a_network_between_nodes(measured: Measured) -> None:
    with pytest.raises(SpecError, match="at least two nodes"):
        break_even(measured, Point(workers=2, nodes=1, batch=None), Question(network=NETWORK), ("allreduce", "ps"))


def test_records_of_different_runs_are_refused_by_what_differs(tmp_path: Path) -> None:
    other = made(tmp_path / "b", alone(spec={"precision": "bf16"}))
    with pytest.raises(DataError, match="precision"):
        profile_of([made(tmp_path / "a", alone()), other])
    with pytest.raises(DataError, match="no records"):
        profile_of([])


def test_a_record_without_gradient_times_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="longer"):
        profile_of([made(tmp_path, alone(record={"gradients": []}))])


def test_a_curve_to_a_thousand_workers_takes_seconds(measured: Measured) -> None:
    gradients = tuple(Gradient(100_000, 60 * MS * (300 - i) / 300) for i in range(300))
    large: StepProfile = replace(measured.profile, gradients=gradients)
    points = [Point(workers=n, nodes=None, batch=None) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)]
    begun = time.perf_counter()
    found = curve(replace(measured, profile=large), points, Question(network=NETWORK, strategy="allreduce:bucket=1MB"))
    assert time.perf_counter() - begun < 10
    assert found.points[-1].limit != "compute"


def test_nothing_is_projected_from_a_rate_that_is_not_known(tmp_path: Path) -> None:
    vague = {"value": 100.0, "low": 1.0, "high": 9000.0, "unit": "images/s"}
    with pytest.raises(DataError, match="the rate of independent with 1 worker is not known: its 95 % interval"):
        Measured.of_records([made(tmp_path, alone(record={"throughput": vague}))])


def test_a_run_that_was_disturbed_is_said_to_have_been(tmp_path: Path) -> None:
    quiet, disturbed = (profile_of([made(tmp_path / str(q), Situation(queued=q))]) for q in (1 * MS, 30 * MS))
    assert not any("queued" in warning for warning in quiet.warnings)
    assert any("queued" in warning for warning in disturbed.warnings)


def test_of_repeats_the_typical_one_is_taken_and_their_distance_makes_the_band(tmp_path: Path) -> None:
    def turn(number: int, exchange: float) -> Record:
        phases = {**USUAL, "exchange": exchange}
        return made(tmp_path / f"{number}-{exchange}", Situation(phases=phases, spec={"turn": number}))

    middle, apart = turn(1, 0.004), [turn(0, 0.001), turn(2, 0.060)]
    alike = [turn(0, 0.0039), turn(2, 0.0041)]
    wide, narrow = (at(Measured.of_records([*others, middle]), 2) for others in (apart, alike))
    assert wide.step_seconds == narrow.step_seconds == pytest.approx(middle.step_seconds)
    assert known(wide.high80) / known(wide.low80) > 1.2 * known(narrow.high80) / known(narrow.low80)


def test_far_beyond_what_was_measured_it_warns_and_then_refuses(measured: Measured) -> None:
    asked = Question(strategy="independent")
    far = curve(measured, [Point(workers=1000, nodes=None, batch=None)], asked)
    assert any("500 times" in warning for warning in far.warnings)
    with pytest.raises(SpecError, match="at most 2048"):
        curve(measured, [Point(workers=4096, nodes=None, batch=None)], asked)
    with pytest.raises(SpecError, match="Batch 1000 is too far"):
        curve(measured, [Point(workers=2, nodes=None, batch=1000)], asked)


def test_a_warning_about_many_points_is_given_once(measured: Measured) -> None:
    found = curve(measured, [Point(workers=n, nodes=None, batch=None) for n in (3, 4, 8)], Question())
    assert [w for w in found.warnings if "on one node" in w] == [
        "Up to 8 workers on one node were requested, but the measured machine has 2 devices: a node with 8 equal "
        "devices is assumed."
    ]


def test_a_break_even_is_the_same_whichever_strategy_is_named_first_and_has_a_band(measured: Measured) -> None:
    question = Question(network=SimulatedNetwork(between=LinkModel(1e9, 10 * MS)))
    pair = ("allreduce:overlap=off", "ps:place=own")
    free = replace(measured, host=HostCost())
    there, back = (
        break_even(free, Point(workers=4, nodes=4), question, strategies) for strategies in (pair, (pair[1], pair[0]))
    )
    assert there == back
    (crossing,) = there.crossings
    assert crossing.low80 is None or crossing.low80 < crossing.bytes_per_second
    assert crossing.high80 is None or crossing.high80 > crossing.bytes_per_second
    assert break_even(measured, Point(workers=4, nodes=4), question, (pair[0], pair[0])).crossings == ()

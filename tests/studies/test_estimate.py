"""How long runs will take: a range that follows from one worker's pace, the size of the data and what was requested."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies.quick import QuickEngine, record_of, study

from paceline.engines.base import Display
from paceline.engines.inspection import DataFacts
from paceline.engines.plan import Plan, plan
from paceline.network import Site
from paceline.record import Record
from paceline.spec import RunSpec
from paceline.studies.estimate import Pace, Span, estimate, requested
from paceline.studies.grid import spread
from paceline.studies.probe import Probe, kind_of, probe

FACTS = DataFacts(training=200, validation=1000)
ALONE = Probe(workers=1, start_up_seconds=2.0, sample_seconds=0.01, forward_seconds=0.004, gradient_bytes=10_000_000)


def expected(**settings: Any) -> Span:
    return expected_of(RunSpec.from_dict({"workload": "vae", "batch": 4, "validate": "off", **settings}))


def expected_of(spec: RunSpec) -> Span:
    span = estimate(spec, ALONE, FACTS)
    assert span is not None
    return span


def holds(span: Span, seconds: float) -> bool:
    return span.low <= seconds <= span.high


def test_steps_take_their_samples_and_the_start() -> None:
    assert holds(expected(steps=100), 2 + 100 * 4 * 0.01)
    assert expected(steps=1).high < expected(steps=1000).low


def test_epochs_take_as_long_as_the_steps_they_are() -> None:
    assert expected(epochs=3) == expected(steps=3 * 50)


def test_workers_divide_an_epoch_unless_each_sees_all_of_it() -> None:
    assert expected(epochs=2, workers=2) == expected(steps=50, workers=2)
    assert expected(epochs=2, workers=2, feed="dataset:shard=off") == expected(steps=100, workers=2)


def test_workers_of_one_device_take_turns_also_when_they_start() -> None:
    alone, sharing = (expected(steps=100, workers=2, workers_per_device=n) for n in (1, 2))
    assert sharing.low - alone.low == pytest.approx(0.7 * 100 * 4 * 0.01)
    assert sharing.high - alone.high > 2


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"validate": "end", "steps": 100}, 1),
        ({"validate": "end", "seconds": 5.0}, 1),
        ({"validate": "epoch", "epochs": 4}, 4),
        ({"validate": "epoch", "steps": 120}, 3),
    ],
)
def test_validation_is_part_of_it_and_once_over_the_set_takes_its_forward(
    settings: dict[str, Any], passes: int
) -> None:
    without = expected(**{**settings, "validate": "off"})
    assert holds(Span(*(a - b for a, b in zip(ends(expected(**settings)), ends(without), strict=True))), passes * 4.0)


def ends(span: Span) -> tuple[float, float]:
    return span.low, span.high


def test_five_seconds_with_a_large_validation_are_not_announced_as_seven() -> None:
    assert expected(seconds=5.0).high < 12
    assert expected(seconds=5.0, validate="end").low > 5 + 2


def test_a_testbed_takes_the_time_of_its_links_for_gradients_and_for_being_measured() -> None:
    site = Site(2, "100Mbps")
    across: dict[str, Any] = {
        "workers": 2,
        "nodes": 2,
        "network": "100Mbps",
        "steps": 10,
        "batch": 4,
        "workload": "vae",
    }
    across |= {"nodes": 2, "network": "100Mbps"}
    near, far = expected(workers=2, steps=10), expected_of(plan(RunSpec.from_dict(across), site).spec)
    assert far.high - near.high > 10 * 8 * 20e6 / 100e6  # 10 MB there and back, ten times
    assert far.low > near.low + 4  # two links, before and after


def test_nothing_is_made_up() -> None:
    spec = RunSpec.from_dict({"workload": "vae", "batch": 4, "epochs": 2})
    assert estimate(spec, ALONE, None) is None
    assert requested(study()) is None
    assert requested(study(steps=None, seconds=10, validate="end")) is None
    runs = spread(study()).in_turns()
    assert Pace().seconds(runs) is None


def test_the_time_of_a_large_study_is_known_at_once() -> None:
    """Twenty thousand runs, of which all but their own figures have to be asked for, in less than they are squared."""
    asked = study(steps=None, seconds=10, workers=[1, 2])
    runs, pace = spread(asked).in_turns(), Pace()
    assert holds(pace.seconds(runs) or Span(0, 0), 3 * 12)
    assert holds(requested(asked) or Span(0, 0), 2 * 12)
    begun, made = time.process_time(), record_of(runs[0].spec, 1)
    for _ in range(20_000):
        pace.learn(runs[0], made)
    assert holds(pace.seconds(runs[:1] * 20_000) or Span(0, 0), 20_000 * 3)  # every record says 3 s of wall time
    assert pace.seconds(runs[1:2] * 20_000) is not None
    assert time.process_time() - begun < 3


class TimedEngine(QuickEngine):
    """One worker that needs 2 s to start and 10 ms a sample."""

    def run(self, plan: Plan, out: Path, display: Display) -> Record:
        spec = plan.spec
        assert (spec.workers, spec.strategy, spec.seconds, spec.validate) == (1, "independent", 1.0, "off")
        self.ran.append(spec)
        record = record_of(spec, devices=1)
        samples = 30 * (spec.batch or 0)
        return replace(
            record,
            learning=replace(record.learning, samples_seen=samples),
            wall_seconds=replace(record.wall_seconds, start_up=2.0, training=samples * 0.01),
        )


@pytest.mark.parametrize(
    "length", [{"steps": 9}, {"epochs": 2}, {"seconds": 60.0}, {"timing": "fixed:warmup=1,steps=2"}]
)
def test_a_probe_times_one_worker_for_a_second_whatever_was_asked(length: dict[str, Any]) -> None:
    engine = TimedEngine()
    specs = [plan(RunSpec.from_dict({"workload": "vae", "batch": 4, "workers": n, **length})).spec for n in (1, 2)]
    probes = probe(specs, engine, lambda _: None)
    assert len(engine.ran) == len(probes) == 1
    known = probes[kind_of(specs[1])]
    assert [known.start_up_seconds, known.sample_seconds] == pytest.approx([2.0, 0.01])


@pytest.mark.parametrize(("span", "text"), [(Span(60, 62), "about 1m01s"), (Span(105, 360), "1m45s to 6m00s")])
def test_a_range_is_written_as_one_number_only_where_it_is_narrow(span: Span, text: str) -> None:
    assert str(span) == text

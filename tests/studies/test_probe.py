"""How long a run will take follows from a probe of one worker: in steps, in epochs, and by how they are divided."""

from dataclasses import replace
from pathlib import Path

import pytest
from studies.quick import QuickEngine, record_of

from paceline.engines.base import Display
from paceline.engines.plan import Plan
from paceline.record import Record
from paceline.settings import SettingValue
from paceline.spec import RunSpec
from paceline.studies.probe import probe, seconds_of

START_UP = 2.0
SAMPLE_SECONDS = 0.01
STEPS_PER_EPOCH = 50


class TimedEngine(QuickEngine):
    """One worker that needs 2 s to start and 10 ms a sample, with 50 steps in an epoch."""

    def run(self, plan: Plan, out: Path, display: Display) -> Record:
        spec = plan.spec
        assert (spec.workers, spec.strategy) == (1, "independent")
        assert spec.batch is not None
        display.ready(step=0, total_steps=STEPS_PER_EPOCH * int(spec.epochs) if spec.epochs else spec.steps)
        record = record_of(spec, devices=1)
        samples = 30 * spec.batch
        return replace(
            record,
            learning=replace(record.learning, samples_seen=samples, global_batch=spec.batch),
            wall_seconds=replace(record.wall_seconds, start_up=START_UP, training=samples * SAMPLE_SECONDS),
        )


def expected(**settings: SettingValue) -> float:
    spec = RunSpec.from_dict({"workload": "vae", "batch": 4, **settings})
    seconds = seconds_of(spec, probe([spec], TimedEngine(), lambda _: None))
    assert seconds is not None
    return seconds


def test_steps_take_their_samples_and_the_start() -> None:
    assert expected(steps=100) == pytest.approx(START_UP + 100 * 4 * SAMPLE_SECONDS)
    assert expected(steps=1, batch=8) == pytest.approx(START_UP + 8 * SAMPLE_SECONDS)


def test_epochs_take_as_long_as_the_steps_they_are() -> None:
    assert expected(epochs=3) == pytest.approx(expected(steps=3 * STEPS_PER_EPOCH))


def test_workers_divide_an_epoch_unless_each_sees_all_of_it() -> None:
    whole = 2 * STEPS_PER_EPOCH * 4 * SAMPLE_SECONDS
    assert expected(epochs=2, workers=2) == pytest.approx(START_UP + whole / 2)
    assert expected(epochs=2, workers=2, feed="dataset:shard=off") == pytest.approx(START_UP + whole)


def test_workers_of_one_device_take_turns() -> None:
    alone, sharing = (expected(steps=100, workers=2, workers_per_device=n) for n in (1, 2))
    assert sharing - START_UP == pytest.approx(2 * (alone - START_UP))

"""Runs in turns: failures end no other run, interruption keeps what is done, and the time left is learned."""

import json
import os
import signal
from pathlib import Path

import pytest
from studies.quick import Notes, QuickEngine, study

from paceline.errors import Interrupted, WorkerLost
from paceline.spec import RunSpec
from paceline.studies.grid import spread
from paceline.studies.schedule import carry_out
from paceline.studies.store import Store


def test_runs_are_made_in_turns(tmp_path: Path) -> None:
    grid, engine = spread(study(strategy=["independent", "allreduce"], workers=[1, 2], repeats=2)), QuickEngine()
    carry_out(grid, Store(tmp_path), engine, Notes())
    ran = [(spec.turn, spec.strategy, spec.workers) for spec in engine.ran]
    every = [("independent", 1), ("independent", 2), ("allreduce", 1), ("allreduce", 2)]
    assert ran[:4] == [(0, *setting) for setting in every]
    assert sorted(ran[4:]) == sorted((1, *setting) for setting in every)


def test_a_run_that_fails_ends_no_other_is_told_and_is_tried_again(tmp_path: Path) -> None:
    def fail(spec: RunSpec) -> None:
        if spec.strategy == "ps":
            raise WorkerLost("Worker 0 was killed by SIGKILL.")
        assert spec.workers == 1, "a mistake of ours"

    grid, notes = spread(study(strategy=["ps", "allreduce"], workers=[1, 2])), Notes()
    contents = carry_out(grid, Store(tmp_path), QuickEngine(fail), notes)
    assert len(contents.records) == 2
    assert len(contents.failures) == 3
    assert "Worker 0 was killed by SIGKILL." in notes.failures
    files = sorted((tmp_path / "failed").glob("*/failure.json"))
    assert len(files) == 3
    failure = json.loads(files[-1].read_text())
    assert (failure["error"], failure["spec"]["strategy"]) == ("WorkerLost", "ps")
    assert Store(tmp_path).read(grid.in_turns()).failures.keys() == contents.failures.keys()
    healed = QuickEngine()
    contents = carry_out(grid, Store(tmp_path), healed, Notes())
    assert len(healed.ran) == 3
    assert not contents.failures
    assert not list((tmp_path / "failed").iterdir())


@pytest.mark.parametrize("stopper", [signal.SIGINT, signal.SIGTERM])
def test_interruption_keeps_what_is_finished_and_says_how_to_go_on(tmp_path: Path, stopper: signal.Signals) -> None:
    def interrupt(spec: RunSpec) -> None:
        if spec.workers == 2:
            os.kill(os.getpid(), stopper)

    before = signal.getsignal(stopper)
    grid = spread(study(workers=[1, 2, 4], workers_per_device="fit"))
    with pytest.raises(Interrupted, match=r"2 of 4 runs are finished and saved\. Repeat the same command to resume"):
        carry_out(grid, Store(tmp_path), QuickEngine(interrupt), Notes())
    assert signal.getsignal(stopper) is before
    assert len(list((tmp_path / "runs").iterdir())) == 2
    rest = QuickEngine()
    carry_out(grid, Store(tmp_path), rest, Notes())
    assert [spec.workers for spec in rest.ran] == [2, 4]


def test_time_left_comes_from_what_was_asked_and_then_from_runs_that_are_done(tmp_path: Path) -> None:
    asked = study(steps=None, seconds=10, workers=[1, 2], repeats=2)
    notes = Notes()
    carry_out(spread(asked), Store(tmp_path), QuickEngine(), notes)
    assert [(place.number, place.total) for place in notes.places] == [(n, 6) for n in range(1, 7)]
    first, last = notes.places[0].left, notes.places[-1].left
    assert first is not None
    assert last is not None
    assert 6 * 10 < first.low < 6 * 12 < first.high
    assert last.low < 3 < last.high < 4  # every record says 3 s of wall time


def test_time_left_is_not_made_up(tmp_path: Path) -> None:
    notes = Notes()
    carry_out(spread(study()), Store(tmp_path), QuickEngine(), notes)
    first, last = notes.places
    assert first.left is None
    assert last.left is not None

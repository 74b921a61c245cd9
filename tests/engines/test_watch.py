"""Which worker is late, and which failure explains the others."""

from typing import cast

import pytest

from paceline.engines import watch
from paceline.engines.watch import Failure, Watched, cause, failure_from
from paceline.errors import (
    Hang,
    NonFiniteLoss,
    OutputError,
    PacelineError,
    ReplicaMisuse,
    RunError,
    ServerLost,
    SpecError,
    WorkerFailed,
    WorkerLost,
)
from paceline.workers.messages import Failed
from paceline.workers.report import WorkerReport


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr(watch, "time", clock)
    return clock


def watched(time: Time, *, pace: float, steps: int = 5) -> Watched:
    """A worker that has made `steps` steps of `pace` seconds each."""
    worker = Watched(0, heard=time.now)
    worker.progressed(0)
    for step in range(1, steps + 1):
        time.now += pace
        worker.progressed(step)
    return worker


def test_before_the_first_steps_are_over_a_worker_may_take_five_minutes(time: Time) -> None:
    worker = Watched(0, heard=time.now)
    assert worker.allowed_seconds(None) == worker.allowed_seconds(5.0) == 300
    worker.progressed(0)
    assert worker.allowed_seconds(5.0) == 300
    assert worker.allowed_seconds(1000.0) == 1000


@pytest.mark.parametrize(("pace", "allowed"), [(0.01, 30), (2.0, 30), (3.5, 35), (60, 600)])
def test_a_step_may_take_ten_usual_ones_and_at_least_half_a_minute(time: Time, pace: float, allowed: float) -> None:
    assert watched(time, pace=pace).allowed_seconds(None) == pytest.approx(allowed)


def test_the_users_own_timeout_is_kept_once_steps_are_made(time: Time) -> None:
    assert watched(time, pace=60).allowed_seconds(5.0) == 5


def test_one_slow_step_does_not_change_what_is_usual(time: Time) -> None:
    worker = watched(time, pace=5, steps=9)
    time.now += 500
    worker.progressed(10)
    assert worker.allowed_seconds(None) == pytest.approx(50)


def test_what_is_usual_follows_the_recent_steps(time: Time) -> None:
    worker = watched(time, pace=1, steps=100)
    for step in range(101, 301):
        time.now += 20
        worker.progressed(step)
    assert worker.allowed_seconds(None) == pytest.approx(200)


def test_several_steps_between_reports_count_as_several(time: Time) -> None:
    worker = watched(time, pace=4, steps=1)
    time.now += 40
    worker.progressed(11)
    assert worker.allowed_seconds(None) == pytest.approx(40)


def test_a_silent_worker_is_late_after_the_allowed_time_and_not_before(time: Time) -> None:
    worker = watched(time, pace=1)
    time.now += 29.9
    assert worker.late_seconds(None) is None
    time.now += 0.2
    assert worker.late_seconds(None) == pytest.approx(30.1)
    assert worker.late_seconds(60.0) is None
    worker.progressed(worker.step or 0)  # as in a long validation: alive, though no step was made
    assert worker.late_seconds(None) is None
    assert worker.allowed_seconds(None) == 30


def test_a_worker_that_has_reported_is_never_late(time: Time) -> None:
    worker = watched(time, pace=1)
    worker.report = cast(WorkerReport, object())
    time.now += 10_000
    assert worker.late_seconds(1.0) is None


def test_a_killed_worker_explains_its_peers_errors() -> None:
    torn = failure_from(0, Failed(error="WorkerFailed", message="connection reset"))
    killed = Failure(1, WorkerLost, "killed", weight=2)
    named = failure_from(2, Failed(error="NonFiniteLoss", message="nan"))
    assert cause([torn, named, killed]) is killed
    assert cause([torn, named]) is named
    assert cause([torn]) is torn


def test_of_equals_the_first_is_the_cause() -> None:
    first, second = (Failure(rank, SpecError, "no", weight=1) for rank in (3, 1))
    assert cause([first, second]) is first


@pytest.mark.parametrize(
    ("error", "weight"),
    [
        (WorkerFailed, 0),
        (ServerLost, 0),
        (RunError, 0),
        (NonFiniteLoss, 1),
        (ReplicaMisuse, 1),
        (SpecError, 1),
        (OutputError, 1),
        (Hang, 1),
    ],
)
def test_an_error_that_a_worker_names_weighs_more_than_a_lost_connection(
    error: type[PacelineError], weight: int
) -> None:
    failure = failure_from(4, Failed(error=error.__name__, message="words"))
    assert failure == Failure(4, error, "words", weight)


def test_an_error_of_an_unknown_name_is_a_failed_worker() -> None:
    assert failure_from(0, Failed(error="print", message="x")).error is WorkerFailed
    assert failure_from(0, Failed(error="KeyError", message="x")).error is WorkerFailed

"""Phases of a step: they add up, and the one who came last is named."""

import numpy as np
import pytest

from paceline.measure.phases import lateness_of, phases_of
from paceline.measure.series import WorkerSeries

STEPS = 40
ALL = slice(0, STEPS)


def worker(backward: np.ndarray, *, until: np.ndarray, held: float = 0.0) -> WorkerSeries:
    """Steps that begin each second; its gradients are ready after `backward`, the exchange is over at `until`."""
    begin = 100.0 + np.arange(STEPS, dtype=np.float64)
    own = {"input": 0.01, "forward": 0.1, "update": 0.02, "other": 0.0}
    series = {name: np.full(STEPS, seconds) for name, seconds in own.items()}
    arrival = begin + 0.11 + backward
    return WorkerSeries(
        **series,
        begin=begin,
        arrival=arrival,
        backward=backward,
        exchange=begin + until - arrival,
        held=np.full(STEPS, held),
        end=begin + until + 0.02,
    )


def pair(late: float) -> list[WorkerSeries]:
    """Worker 1 is later by `late`; the exchange itself takes 50 ms after both are there."""
    until = np.full(STEPS, 0.11 + 0.2 + late + 0.05)
    return [worker(np.full(STEPS, 0.2), until=until), worker(np.full(STEPS, 0.2 + late), until=until)]


def test_who_is_early_waits_until_the_last_has_come_and_the_rest_is_exchange() -> None:
    early, late = phases_of(pair(0.05), [ALL, ALL], synchronous=True)
    assert (early.wait, early.exchange) == pytest.approx((0.05, 0.05))
    assert (late.wait, late.exchange) == pytest.approx((0.0, 0.05))


def test_phases_of_each_worker_add_up_to_its_step() -> None:
    for synchronous in (True, False):
        workers = pair(0.07)
        for one, phases in zip(workers, phases_of(workers, [ALL, ALL], synchronous=synchronous), strict=True):
            assert phases.total == pytest.approx((one.end - one.begin).mean())


def test_where_nobody_waits_for_all_it_is_the_bound_that_makes_one_wait() -> None:
    alone = worker(np.full(STEPS, 0.2), until=np.full(STEPS, 0.41), held=0.03)
    (phases,) = phases_of([alone], [slice(5, STEPS)], synchronous=False)
    assert (phases.wait, phases.exchange) == pytest.approx((0.03, 0.07))


def test_the_late_worker_is_told_by_its_arrival() -> None:
    early, late = lateness_of(pair(0.05), [ALL, ALL])
    assert (late.last_share, early.last_share) == (1.0, 0.0)
    assert (late.late_seconds, early.late_seconds) == pytest.approx((0.05, -0.05))


def test_workers_that_are_last_in_turns_are_not_late() -> None:
    swing = np.where(np.arange(STEPS) % 2 == 0, 0.2, 0.22)
    until = np.full(STEPS, 0.5)
    both = lateness_of([worker(swing, until=until), worker(0.42 - swing, until=until)], [ALL, ALL])
    assert [one.last_share for one in both] == [0.5, 0.5]
    assert [one.late_seconds for one in both] == pytest.approx([0.0, 0.0])

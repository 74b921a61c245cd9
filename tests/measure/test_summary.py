"""From every worker's series to the figures of a record: all of them add up."""

import math
from typing import Any

import numpy as np
import pytest

from paceline.measure.summary import WorkerSeries, mean_losses, summarise


def worker(
    steps: int,
    *,
    late: float = 0.0,
    exchange: float = 0.03,
    samples: int = 8,
    paces: np.ndarray | None = None,
    **changes: Any,
) -> WorkerSeries:
    """A worker whose backward ends `late` after 0.1 s, and whose exchange then ends with everybody's."""
    stretch = np.ones(steps) if paces is None else paces
    durations = 0.2 * stretch
    begin = 100 + np.concatenate([[0.0], np.cumsum(durations)[:-1]])
    series = {
        "begin": begin,
        "end": begin + durations,
        "arrival": begin + (0.1 + late) * stretch,
        "samples": np.full(steps, float(samples)),
        "units": np.full(steps, 3.0 * samples),
        "loss": np.linspace(2, 1, steps),
        "input": 0.02 * stretch,
        "forward": 0.03 * stretch,
        "backward": (0.05 + late) * stretch,
        "exchange": (exchange + 0.04 - late) * stretch,
        "update": 0.01 * stretch,
    }
    claimed = sum(series[name] for name in ("input", "forward", "backward", "exchange", "update"))
    return {**series, "other": durations - claimed, **changes}


PACES = np.concatenate([[5.0, 3.0], np.ones(40)])


def test_wait_and_exchange_come_from_the_arrivals() -> None:
    early, late = worker(42, paces=PACES), worker(42, late=0.04, paces=PACES)
    phases = summarise([early, late], synchronous=True).phases
    # The early one waits 0.04 s for the late one, which waits for nobody; after that both exchange for 0.03 s.
    assert phases["wait"] == pytest.approx((0.04 + 0) / 2)
    assert phases["exchange"] == pytest.approx(0.03)


@pytest.mark.parametrize("synchronous", [True, False])
def test_phases_add_up_to_the_step(synchronous: bool) -> None:
    workers = [worker(42, late=late, paces=PACES) for late in (0.0, 0.01, 0.04)]
    summary = summarise(workers, synchronous=synchronous)
    assert sum(summary.phases.values()) == pytest.approx(np.mean(summary.worker_seconds) / summary.steps_timed)
    assert min(summary.phases.values()) >= 0


def test_without_a_barrier_nobody_is_said_to_wait_for_others() -> None:
    workers = [worker(42), worker(42, late=0.04)]
    phases = summarise(workers, synchronous=False).phases
    assert phases["wait"] == 0
    assert phases["exchange"] == pytest.approx((0.07 + 0.03) / 2)


def test_a_wait_is_never_longer_than_the_time_blocked() -> None:
    blocked_briefly = worker(42, exchange=-0.03)  # blocked 0.01 s, though the other came 0.04 s later
    phases = summarise([blocked_briefly, worker(42, late=0.04)], synchronous=True).phases
    assert phases["wait"] == pytest.approx(0.01 / 2)
    assert phases["exchange"] >= 0


def test_the_warm_up_is_stored_apart_and_never_counted() -> None:
    summary = summarise([worker(42, paces=PACES), worker(42, paces=PACES)], synchronous=True)
    assert (summary.warmup_steps, summary.steps_timed) == (2, 40)
    assert summary.samples_timed == 40 * 16
    assert summary.worker_samples == [320, 320]
    assert summary.seconds_timed == pytest.approx(40 * 0.2)
    assert summary.throughput["value"] == pytest.approx(2 * 24 / 0.2)


def test_the_rate_is_the_sum_of_every_workers_own() -> None:
    summary = summarise([worker(42, samples=8), worker(42, samples=2)], synchronous=True)
    assert summary.throughput["value"] == pytest.approx((24 + 6) / 0.2)
    assert summary.samples_timed == sum(summary.worker_samples) == 41 * 10


def test_an_even_pace_has_a_narrow_interval_and_no_warning() -> None:
    summary = summarise([worker(42)], synchronous=True)
    assert summary.warnings == []
    assert summary.throughput["low"] == pytest.approx(120)
    assert summary.throughput["high"] == pytest.approx(120)


def test_an_uneven_pace_is_told_in_words() -> None:
    paces = np.ones(201)
    paces[150:160] = 10  # one window in twenty: the median does not see it, the mean does
    (warning,) = summarise([worker(201, paces=paces)], synchronous=True).warnings
    assert "the pace was uneven" in warning
    assert "31%" in warning  # 200 steps of work in the time of 290: 1 − 200/290
    slight = np.ones(201)
    slight[150:160] = 1.3
    assert summarise([worker(201, paces=slight)], synchronous=True).warnings == []


def test_only_steps_that_all_workers_finished_are_counted() -> None:
    summary = summarise([worker(42), worker(30)], synchronous=False)
    assert summary.warmup_steps + summary.steps_timed == 30
    assert summary.worker_samples == [8 * summary.steps_timed] * 2


def test_a_run_of_one_step_is_counted_without_an_interval() -> None:
    summary = summarise([worker(1)], synchronous=True)
    assert (summary.warmup_steps, summary.steps_timed) == (0, 1)
    assert summary.throughput == {"value": pytest.approx(120), "low": None, "high": None}


def test_losses_are_weighted_by_samples_and_none_where_there_was_none() -> None:
    first = {"loss": np.array([1.0, 4.0, math.nan]), "samples": np.array([6.0, 8.0, 0.0])}
    second = {"loss": np.array([5.0, math.nan, math.nan]), "samples": np.array([2.0, 0.0, 0.0])}
    assert mean_losses([first, second]) == [pytest.approx(2.0), 4.0, None]


def test_every_worker_counts_its_own_samples() -> None:
    summary = summarise([worker(42, samples=8), worker(42, samples=2)], synchronous=True)
    assert sum(summary.worker_samples) == summary.samples_timed
    assert summary.worker_samples[0] == 4 * summary.worker_samples[1]

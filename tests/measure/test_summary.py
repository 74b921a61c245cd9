"""From every worker's series to the figures of a record: all of them add up."""

import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from measure import pace

from paceline.measure.series import Series, WorkerSeries
from paceline.measure.summary import mean_losses, summarise


def worker(steps: int, *, samples: int = 8, paces: Series | None = None) -> WorkerSeries:
    """Steps of 0.2 s, or as many times that as `paces` says, with three units to a sample."""
    durations = 0.2 * (np.ones(steps) if paces is None else paces)
    return replace(pace.worker(durations, units=samples, begin=100), units=np.full(steps, 3.0 * samples))


def losses(loss: list[float], samples: list[float]) -> WorkerSeries:
    moments = np.arange(float(len(loss)))
    return WorkerSeries(begin=moments, end=moments + 1, loss=np.array(loss), samples=np.array(samples))


PACES = np.concatenate([[5.0, 3.0], np.ones(40)])


def test_the_warm_up_is_stored_apart_and_never_counted() -> None:
    summary = summarise([worker(42, paces=PACES), worker(42, paces=PACES)], synchronous=True)
    assert (summary.warmup_steps, summary.steps_timed) == (2, 40)
    assert summary.samples_timed == 40 * 16
    assert summary.worker_samples == [320, 320]
    assert summary.seconds_timed == pytest.approx(40 * 0.2)
    assert summary.throughput.value == pytest.approx(2 * 24 / 0.2)


def test_the_rate_is_the_sum_of_every_workers_own() -> None:
    summary = summarise([worker(42, samples=8), worker(42, samples=2)], synchronous=True)
    assert summary.throughput.value == pytest.approx((24 + 6) / 0.2)
    assert summary.samples_timed == sum(summary.worker_samples) == 41 * 10


def test_an_even_pace_has_a_narrow_interval_and_no_warning() -> None:
    summary = summarise([worker(42)], synchronous=True)
    assert summary.warnings == []
    assert summary.throughput.low == pytest.approx(120)
    assert summary.throughput.high == pytest.approx(120)


def test_an_uneven_pace_is_told_in_words() -> None:
    paces = np.ones(201)
    paces[150:160] = 10  # one window in twenty: the median does not see it, the mean does
    (warning,) = summarise([worker(201, paces=paces)], synchronous=True).warnings
    assert "31% below the median" in warning  # 200 steps of work in the time of 290: 1 − 200/290
    assert "5.0% of the steps were over twice as slow as usual" in warning
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
    assert astuple(summary.throughput)[:3] == (pytest.approx(120), None, None)


def test_losses_are_weighted_by_samples_and_none_where_there_was_none() -> None:
    first = losses([1.0, 4.0, math.nan], samples=[6.0, 8.0, 0.0])
    second = losses([5.0, math.nan, math.nan], samples=[2.0, 0.0, 0.0])
    assert mean_losses([first, second]) == [pytest.approx(2.0), 4.0, None]


def test_every_worker_counts_its_own_samples() -> None:
    summary = summarise([worker(42, samples=8), worker(42, samples=2)], synchronous=True)
    assert sum(summary.worker_samples) == summary.samples_timed
    assert summary.worker_samples[0] == 4 * summary.worker_samples[1]


def test_the_originals_way_times_exactly_the_steps_after_its_warm_up() -> None:
    paces = np.concatenate([np.full(10, 7.0), np.linspace(1.5, 0.5, 20)])
    workers = [worker(30, samples=8, paces=paces), worker(30, samples=2, paces=2 * paces)]
    summary = summarise(workers, synchronous=True, fixed_warmup=10)
    assert (summary.warmup_steps, summary.steps_timed) == (10, 20)
    assert summary.timed == [slice(10, 30)] * 2
    assert summary.worker_samples == [160, 40]
    assert summary.samples_timed == 200
    assert summary.worker_seconds == pytest.approx([20 * 0.2, 40 * 0.2])
    assert summary.seconds_timed == pytest.approx(40 * 0.2)
    assert astuple(summary.throughput)[:3] == (pytest.approx(24 / 0.2 + 6 / 0.4), None, None)


@pytest.mark.parametrize("synchronous", [True, False])
def test_the_originals_way_is_marked_as_such(synchronous: bool) -> None:
    summary = summarise([worker(30), worker(30)], synchronous=synchronous, fixed_warmup=10)
    (warning,) = summary.warnings
    assert warning.startswith("Timed as older benchmarks do: 20 steps after 10 as one window. This gives no interval")


def test_a_run_stopped_within_its_fixed_warm_up_is_timed_over_its_last_step() -> None:
    summary = summarise([worker(4)], synchronous=True, fixed_warmup=10)
    assert (summary.warmup_steps, summary.steps_timed) == (3, 1)
    assert summary.throughput.value == pytest.approx(120)


NOISY = [1 + 0.1 * np.abs(np.random.default_rng(seed).standard_normal(200)) for seed in range(3)]


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("fixed_warmup", [None, 10])
def test_it_does_not_matter_which_worker_is_which(synchronous: bool, fixed_warmup: int | None) -> None:
    workers = [worker(200, samples=4 + rank, paces=paces) for rank, paces in enumerate(NOISY)]
    one = summarise(workers, synchronous=synchronous, fixed_warmup=fixed_warmup)
    other = summarise(workers[::-1], synchronous=synchronous, fixed_warmup=fixed_warmup)
    assert astuple(other.throughput) == pytest.approx(astuple(one.throughput))
    assert other.worker_samples == one.worker_samples[::-1]
    assert (other.samples_timed, other.warmup_steps) == (one.samples_timed, one.warmup_steps)


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("factor", [0.01, 3.0])
def test_a_machine_so_many_times_slower_has_so_many_times_less_throughput(synchronous: bool, factor: float) -> None:
    one = summarise([worker(200, paces=paces) for paces in NOISY], synchronous=synchronous)
    slower = summarise([worker(200, paces=factor * paces) for paces in NOISY], synchronous=synchronous)
    assert slower.warmup_steps == one.warmup_steps
    for ours, theirs in zip(astuple(one.throughput)[:3], astuple(slower.throughput)[:3], strict=True):
        assert theirs == pytest.approx(ours / factor, rel=1e-6)


def test_twice_the_workers_of_one_kind_have_twice_the_throughput() -> None:
    one = summarise([worker(200, paces=NOISY[0])], synchronous=True)
    two = summarise([worker(200, paces=NOISY[0])] * 2, synchronous=True)
    assert two.throughput.value == pytest.approx(2 * one.throughput.value)
    assert two.samples_timed == 2 * one.samples_timed


@pytest.mark.parametrize("synchronous", [True, False])
def test_the_rate_lies_within_its_interval_and_samples_add_up(synchronous: bool) -> None:
    for steps in (7, 20, 61, 200):
        workers = [worker(steps, samples=3 + rank, paces=paces[:steps]) for rank, paces in enumerate(NOISY)]
        summary = summarise(workers, synchronous=synchronous)
        assert sum(summary.worker_samples) == summary.samples_timed
        if summary.throughput.low is not None and summary.throughput.high is not None:
            assert summary.throughput.low <= summary.throughput.value <= summary.throughput.high

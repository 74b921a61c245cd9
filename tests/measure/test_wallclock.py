"""Workers that do not wait for one another are timed in the same stretch of time."""

import numpy as np
import pytest

from paceline.measure.series import WorkerSeries
from paceline.measure.summary import summarise
from paceline.measure.wallclock import common_stretch

PHASES = ("input", "forward", "backward", "exchange", "update", "other")


def worker(
    step_seconds: float, steps: int, *, samples: int = 8, pauses: dict[int, float] | None = None
) -> WorkerSeries:
    """Steps of equal length from time 0; before some of them a pause until a given time."""
    begins, ends, now = [], [], 0.0
    for step in range(steps):
        now = max(now, (pauses or {}).get(step, 0.0))
        begins.append(now)
        now += step_seconds
        ends.append(now)
    series = {"begin": np.array(begins), "end": np.array(ends), "arrival": np.array(ends)}
    counts = {name: np.full(steps, float(samples)) for name in ("samples", "units", "loss")}
    phases = {name: np.full(steps, step_seconds / len(PHASES)) for name in PHASES}
    return WorkerSeries(**series, **counts, **phases)


def test_a_fast_worker_that_ends_early_does_not_inflate_the_rate() -> None:
    # 8 samples every 10 ms for 0.4 s beside 8 every 200 ms for 8 s: 800 + 40 per second while both train
    summary = summarise([worker(0.01, 40), worker(0.2, 40)], synchronous=False)
    assert summary.throughput.value == pytest.approx(840, rel=0.05)
    assert summary.seconds_timed <= 0.4


def test_workers_that_hardly_met_are_timed_over_the_whole_run() -> None:
    fast, slow = worker(0.001, 20), worker(0.5, 20)
    summary = summarise([fast, slow], synchronous=False)
    assert summary.seconds_timed == pytest.approx(10, rel=0.01)
    assert summary.samples_timed == 2 * 20 * 8
    assert summary.throughput.value == pytest.approx(16, rel=0.05)
    assert summary.warnings, "the mean over all seconds is far from the median: that must be said"


def test_a_pause_that_all_make_is_no_time_and_waiting_for_it_is() -> None:
    # both pause before step 10; the fast one comes there at 1.0 s, the slow one at 2.0 s; all go on at 5.0 s
    fast, slow = worker(0.1, 20, pauses={10: 5.0}), worker(0.2, 20, pauses={10: 5.0})
    stretch = common_stretch([fast, slow], 0)
    assert stretch.seconds == pytest.approx(2.0 + 1.0)
    rates = stretch.rates([fast, slow], 3)
    assert rates.sum() * stretch.seconds / 3 == pytest.approx(20 * 8 + 15 * 8)


def test_equal_workers_have_the_rate_that_steps_give() -> None:
    workers = [worker(0.1, 50), worker(0.1, 50)]
    assert summarise(workers, synchronous=False).throughput.value == pytest.approx(160)
    assert summarise(workers, synchronous=True).throughput.value == pytest.approx(160)

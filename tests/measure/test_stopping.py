"""A run that stops by itself is as narrow as asked, and its interval still holds the truth."""

import itertools

import numpy as np
import pytest
from measure.pace import steady, true_rate, warming_up, worker

from paceline.measure.series import Series
from paceline.measure.stats import WINDOWS
from paceline.measure.stopping import Stopping
from paceline.measure.summary import summarise

CEILING = 4000


def stopped_after(step_seconds: Series, percent: float, *, ask_every: int = 10) -> int | None:
    stopping = Stopping(percent)
    for done, seconds in enumerate(step_seconds.tolist(), start=1):
        stopping.step(seconds, 1.0)
        if done % ask_every == 0 and stopping.narrow_enough():
            return done
    return None


@pytest.mark.parametrize(
    ("noise", "correlation", "percent"),
    [("normal", 0.0, 2), ("normal", 0.8, 5), ("normal", 0.95, 10), ("slow steps", 0.5, 5), ("long-tailed", 0.5, 10)],
)
def test_looking_again_and_again_does_not_ruin_the_interval(noise: str, correlation: float, percent: float) -> None:
    runs, held, early = 100, 0, 0
    for seconds in steady(np.random.default_rng(8), runs, CEILING, correlation, noise) + warming_up(CEILING, 15):
        steps = stopped_after(seconds, percent)
        summary = summarise([worker(seconds[:steps])], synchronous=True)
        rate = summary.throughput
        value, low, high = rate.value, rate.low or 0.0, rate.high or 0.0
        assert 0 < low <= value <= high
        held += low <= true_rate(correlation, noise, round(summary.steps_timed / WINDOWS)) <= high
        if steps is not None:
            early += 1
            assert max(value - low, high - value) <= percent / 100 * value
    assert held / runs >= 0.9
    assert early / runs > 0.8, "it must stop at all"


def test_an_even_pace_stops_soon_and_a_wild_one_does_not() -> None:
    random = np.random.default_rng(0)
    even = stopped_after(1 + 0.01 * random.standard_normal(CEILING), 2)
    assert even is not None
    assert even < 200
    assert stopped_after(random.lognormal(0.0, 1.0, CEILING), 1) is None


def test_the_narrower_it_must_be_the_longer_it_takes() -> None:
    (seconds,) = steady(np.random.default_rng(1), 1, CEILING, 0.3, "normal")
    lengths = [stopped_after(seconds, percent) for percent in (10, 5, 2, 1)]
    assert all(a <= b for a, b in itertools.pairwise(length or CEILING for length in lengths))
    assert lengths[0] != lengths[-1]


@pytest.mark.parametrize("percent", [1, 10])
def test_it_does_not_stop_while_the_warm_up_lasts(percent: float) -> None:
    (noise,) = steady(np.random.default_rng(2), 1, CEILING, 0.0, "normal")
    steps = stopped_after(noise + warming_up(CEILING, 60), percent)
    assert steps is None or steps > 500  # 2·e^(−250/60) is 3 %, still more than half the noise


def test_once_narrow_it_stays_so() -> None:
    stopping = Stopping(5)
    for _ in range(100):
        stopping.step(1.0, 8.0)
        stopping.narrow_enough()
    assert stopping.narrow_enough()
    stopping.step(100.0, 8.0)
    assert stopping.narrow_enough()


@pytest.mark.timeout(20)
def test_asking_after_every_step_of_a_long_run_costs_little() -> None:
    seconds = np.random.default_rng(3).lognormal(0.0, 1.0, 200_000)
    assert stopped_after(seconds, 0.001, ask_every=1) is None


def test_a_rate_that_is_not_known_stops_no_run_however_little_was_asked_for() -> None:
    random, stopping = np.random.default_rng(3), Stopping(500.0)
    for seconds in np.exp(2 * random.standard_normal(60).repeat(10)):
        stopping.step(seconds, 1.0)
        assert not stopping.narrow_enough()

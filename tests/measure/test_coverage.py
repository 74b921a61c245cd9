"""A 95 % interval holds the truth in 90 to 99 % of simulated runs, whatever the noise remembers."""

from dataclasses import astuple

import numpy as np
import pytest
from measure.pace import NOISES, steady, true_rate, warming_up, worker

from paceline.measure.series import Series
from paceline.measure.stats import WINDOWS, Figure, median_interval, warmup_steps, window_rates
from paceline.measure.summary import summarise

RUNS = 300


def figure_of(step_seconds: Series) -> tuple[Figure, int]:
    timed = step_seconds[warmup_steps(step_seconds) :]
    return median_interval(window_rates(np.ones(len(timed)), timed)), len(timed)


@pytest.mark.parametrize("steps", [60, 300, 2000])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("noise", NOISES)
def test_an_interval_holds_the_true_rate_as_often_as_it_should(noise: str, correlation: float, steps: int) -> None:
    random = np.random.default_rng(steps)
    held = 0
    for seconds in steady(random, RUNS, steps, correlation, noise) + warming_up(steps, steps / 20):
        figure, timed = figure_of(seconds)
        assert figure.low is not None
        assert figure.high is not None
        held += figure.low <= true_rate(correlation, noise, round(timed / WINDOWS)) <= figure.high
    assert 0.9 <= held / RUNS <= 0.99


def test_a_record_has_that_interval() -> None:
    (seconds,) = steady(np.random.default_rng(2), 1, 300, 0.5, "normal") + warming_up(300, 15)
    figure, timed = figure_of(seconds)
    summary = summarise([worker(seconds)], synchronous=True)
    assert astuple(summary.throughput)[:3] == pytest.approx(astuple(figure)[:3])
    assert summary.steps_timed == timed


@pytest.mark.parametrize("noise", NOISES)
def test_an_interval_of_a_long_run_is_narrow_enough_to_be_of_use(noise: str) -> None:
    random = np.random.default_rng(1)
    widths = []
    for seconds in steady(random, 50, 2000, 0.5, noise) + warming_up(2000, 20):
        figure, _ = figure_of(seconds)
        widths.append((figure.high - figure.low) / figure.value)  # type: ignore[operator]
    # Twice what the best estimate of the mean, ± 1.96·σ·√((1 + φ)/(1 − φ)/n), would need, and a fifth for the median.
    sigma = {"normal": 0.05, "long-tailed": 0.31, "slow steps": 0.35}[noise]
    assert np.median(widths) < 2 * 1.2 * 2 * 1.96 * sigma * np.sqrt(3 / 2000)

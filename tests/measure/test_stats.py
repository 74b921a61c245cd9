"""Warm-up, windows and intervals, held to what they promise."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from paceline.measure.series import Series
from paceline.measure.stats import (
    Figure,
    independent_windows,
    median_interval,
    t_quantile,
    warmup_steps,
    window_rates,
    windows,
)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 1 / 3, 1.0, 1e-6])
@pytest.mark.parametrize("steps", [2, 3, 10, 50, 1000])
def test_equal_steps_lose_only_the_first(steps: int, seconds: float) -> None:
    assert warmup_steps(np.full(steps, seconds)) == 1


def test_a_single_step_is_kept() -> None:
    assert warmup_steps(np.array([0.5])) == 0


@pytest.mark.parametrize("steps", [50, 200, 1000])
def test_noise_around_a_level_is_not_taken_for_a_warm_up(steps: int) -> None:
    random = np.random.default_rng(steps)
    cuts = [warmup_steps(1 + 0.05 * random.standard_normal(steps)) for _ in range(300)]
    assert np.median(cuts) <= 2
    assert np.mean(np.array(cuts) > steps // 4) < 0.05


@pytest.mark.parametrize("ramp", [3, 10, 30])
def test_a_ramp_is_left_out_and_little_more(ramp: int) -> None:
    random = np.random.default_rng(ramp)
    cuts = []
    for _ in range(100):
        steps = 1 + 0.02 * random.standard_normal(200)
        steps[:ramp] += np.linspace(3, 0.5, ramp)
        cuts.append(warmup_steps(steps))
    assert min(cuts) >= ramp
    assert np.percentile(cuts, 90) <= ramp + 10


@pytest.mark.timeout(20)
def test_the_warm_up_of_a_million_steps_is_found_in_a_moment() -> None:
    steps = 1 + 0.02 * np.random.default_rng(0).standard_normal(1_000_000)
    steps[:1000] += 2
    assert 1000 <= warmup_steps(steps) <= 10_000  # a hundredth of them: a long run is looked at in blocks


def test_at_most_half_of_the_steps_are_warm_up() -> None:
    for steps in (3, 4, 10, 11, 101):
        assert warmup_steps(np.linspace(2, 1, steps)) <= max(1, steps // 2)


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 39, 40, 100, 1003])
def test_windows_hold_every_step_once_in_order_and_are_equally_long(count: int) -> None:
    parts = windows(count)
    assert len(parts) == min(20, count)
    covered = list(itertools.chain.from_iterable(range(part.start, part.stop) for part in parts))
    assert covered == list(range(count))
    lengths = {part.stop - part.start for part in parts}
    assert max(lengths) - min(lengths) <= 1


def test_a_slow_ramp_that_single_steps_hide_is_seen_in_blocks() -> None:
    random = np.random.default_rng(0)
    fading = 0.5 * np.exp(-np.arange(2000) / 130)
    for _ in range(20):
        cut = warmup_steps(1 + 0.05 * random.standard_normal(2000) + fading)
        assert fading[cut] < 0.04, "less than the noise of one step, where single steps would have cut"
        assert cut <= 1000


def test_a_window_has_its_units_over_its_seconds() -> None:
    rates = window_rates(np.full(40, 6.0), np.repeat([1.0, 3.0], 20))
    assert rates.tolist() == [6.0] * 10 + [2.0] * 10


DISTRIBUTIONS: dict[str, tuple[Callable[[np.random.Generator, int], Series], float]] = {
    "normal": (lambda random, n: random.normal(30.0, 1.0, n), 30.0),
    "long-tailed": (lambda random, n: random.lognormal(0.0, 1.0, n), 1.0),
    "skewed": (lambda random, n: random.exponential(1.0, n), math.log(2)),
}


@pytest.mark.parametrize("n", [9, 20])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_an_interval_of_independent_values_holds_the_true_median(distribution: str, n: int) -> None:
    draw, median = DISTRIBUTIONS[distribution]
    random = np.random.default_rng(n)
    held = 0
    for _ in range(1000):
        figure = median_interval(draw(random, n))
        assert figure.low is not None
        assert figure.high is not None
        held += figure.low < median < figure.high
    assert 0.94 < held / 1000 <= 0.995


def order_statistics(n: int) -> tuple[int, int]:
    """The narrowest pair with P(X₍ₖ₎ < median < X₍ₙ₊₁₋ₖ₎) = 1 − 2·P(Binomial(n, ½) < k) ≥ 95 %."""
    tails = list(itertools.accumulate(math.comb(n, i) / 2**n for i in range(n // 2)))
    k = sum(2 * tail <= 0.05 for tail in tails)
    return k - 1, n - k


@pytest.mark.parametrize("n", [6, 7, 12, 20])
def test_windows_that_alternate_are_as_good_as_independent_and_end_at_order_statistics(n: int) -> None:
    values = np.sort(np.random.default_rng(0).uniform(1, 2, n))
    fast_and_slow = np.where(np.arange(n) % 2, values[::-1], values)  # neighbours lie on opposite sides
    assert independent_windows(fast_and_slow) == n
    ordered = np.sort(fast_and_slow)
    low, high = order_statistics(n)
    expected = Figure(float(np.median(ordered)), float(ordered[low]), float(ordered[high]))
    figure = median_interval(fast_and_slow)
    assert [figure.value, figure.low, figure.high] == pytest.approx([expected.value, expected.low, expected.high])


def test_the_same_windows_in_order_are_less_certain_than_mixed() -> None:
    values = np.random.default_rng(4).normal(100, 5, 20)
    mixed, in_order = median_interval(values), median_interval(np.sort(values))
    assert in_order.value == mixed.value
    assert in_order.spread > 3 * mixed.spread  # type: ignore[operator]
    assert independent_windows(np.sort(values)) == 2


def test_one_slow_window_does_not_hide_that_neighbours_are_alike() -> None:
    walk = 100 + 0.5 * np.cumsum(np.random.default_rng(5).standard_normal(20))
    assert independent_windows(walk) == 2
    walk[10] = 20.0
    assert independent_windows(walk) < 10


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_too_few_values_give_a_median_and_no_interval(n: int) -> None:
    figure = median_interval(np.arange(1.0, n + 1))
    assert figure == Figure((n + 1) / 2, None, None)
    assert figure.spread is None


def test_equal_windows_leave_no_doubt() -> None:
    assert median_interval(np.full(20, 3.0)) == Figure(3.0, 3.0, 3.0)


def test_windows_in_which_nothing_was_done_have_no_interval() -> None:
    assert median_interval(np.zeros(20)) == Figure(0.0)


@pytest.mark.parametrize("factor", [1e-6, 0.3, 7.0, 1e9])
def test_rates_in_another_unit_have_their_interval_in_that_unit(factor: float) -> None:
    rates = np.random.default_rng(6).lognormal(0.0, 0.2, 20)
    one, other = median_interval(rates), median_interval(factor * rates)
    ends = [factor * end for end in (one.value, one.low, one.high) if end is not None]
    assert [other.value, other.low, other.high] == pytest.approx(ends)
    assert other.spread == pytest.approx(one.spread)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (19, 2.09302), (100, 1.98397)],
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, rel=1e-4)


def test_students_quantiles_lie_between_their_neighbours_where_freedom_is_not_whole() -> None:
    quantiles = [t_quantile(freedom) for freedom in (1, 1.5, 2, 2.5, 3, 10.25, 11)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert len(set(quantiles)) == len(quantiles)


def test_the_spread_of_a_figure_is_that_of_its_farther_end() -> None:
    assert Figure(100, 95, 110).spread == pytest.approx(0.1)
    assert Figure(100, 80, 110).spread == pytest.approx(0.2)


def test_an_interval_beyond_half_or_twice_the_value_is_vague() -> None:
    assert not Figure(10.0).vague
    assert not Figure(10.0, 5.0, 20.0).vague
    assert Figure(10.0, 4.9, 11.0).vague
    assert Figure(10.0, 9.0, 20.1).vague

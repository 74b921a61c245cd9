"""Warm-up, windows and intervals, held to what they promise."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from paceline.measure.stats import Series, median_interval, warmup_steps, windows


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
    assert 1000 <= warmup_steps(steps) <= 1100


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


def exact_coverage(n: int, k: int) -> float:
    """P(X₍ₖ₎ < median < X₍ₙ₊₁₋ₖ₎) = 1 − 2·P(Binomial(n, ½) < k)."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


DISTRIBUTIONS: dict[str, tuple[Callable[[np.random.Generator, int], Series], float]] = {
    "normal": (lambda random, n: random.normal(3.0, 1.0, n), 3.0),
    "long-tailed": (lambda random, n: random.lognormal(0.0, 1.0, n), 1.0),
    "skewed": (lambda random, n: random.exponential(1.0, n), math.log(2)),
}


@pytest.mark.parametrize("n", [6, 9, 20, 21])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_an_interval_holds_the_true_median_as_often_as_it_says(distribution: str, n: int) -> None:
    draw, median = DISTRIBUTIONS[distribution]
    random = np.random.default_rng(n)
    held = 0
    for _ in range(2000):
        _, low, high = median_interval(draw(random, n))
        assert low is not None
        assert high is not None
        held += low < median < high
    k = max(k for k in range(1, n // 2 + 1) if exact_coverage(n, k) >= 0.95)
    assert held / 2000 == pytest.approx(exact_coverage(n, k), abs=0.015)
    assert held / 2000 > 0.94


@pytest.mark.parametrize("n", [6, 7, 12, 20, 101])
def test_an_interval_is_the_narrowest_pair_of_order_statistics_that_suffices(n: int) -> None:
    median, low, high = median_interval(np.random.default_rng(0).permutation(np.arange(1.0, n + 1)))
    assert low is not None
    assert high == n + 1 - low
    assert low < median < high
    assert exact_coverage(n, int(low)) >= 0.95
    assert low == n // 2 or exact_coverage(n, int(low) + 1) < 0.95


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_too_few_values_give_a_median_and_no_interval(n: int) -> None:
    assert median_interval(np.arange(1.0, n + 1)) == ((n + 1) / 2, None, None)


def test_less_confidence_needs_fewer_values_and_less_width() -> None:
    values = np.arange(20.0)
    assert median_interval(values[:3], confidence=0.7)[1:] == (0.0, 2.0)
    wide, narrow = median_interval(values, 0.99), median_interval(values, 0.5)
    assert wide[1] < narrow[1] < narrow[2] < wide[2]  # type: ignore[operator]

"""The knee of a curve: the first count at which doubling the workers adds less than 50 %, for laws and simulation."""

from collections.abc import Callable, Sequence

import pytest

from paceline.project import curve
from paceline.project.laws import forecast
from paceline.project.questions import whatif


def rates(throughput: Callable[[int], float]) -> Callable[[Sequence[int]], list[float]]:
    return lambda counts: [throughput(count) for count in counts]


def first(throughput: Callable[[int], float], most: int) -> int | None:
    """The definition, count by count."""
    return next((n for n in range(1, most + 1) if throughput(2 * n) < 1.5 * throughput(n)), None)


@pytest.mark.parametrize("most", [1, 2, 3, 15, 16, 17, 31, 100, 5000])
@pytest.mark.parametrize("serial", [0.9, 0.3, 0.1, 0.03, 0.01, 0.001, 1e-5])
def test_it_is_the_first_count_of_all(serial: float, most: int) -> None:
    def amdahl(workers: int) -> float:
        return workers / (1 + serial * (workers - 1))

    assert curve.knee(rates(amdahl), most) == first(amdahl, most)


def test_a_jump_that_is_made_up_for_later_is_the_knee_all_the_same() -> None:
    def nodes_of_eight(workers: int) -> float:
        return workers if workers <= 8 else 0.6 * workers

    assert curve.knee(rates(nodes_of_eight), 64) == 5 == first(nodes_of_eight, 64)


def test_it_is_looked_for_at_few_counts() -> None:
    asked: list[int] = []

    def linear(counts: Sequence[int]) -> list[float]:
        asked.extend(counts)
        return [float(count) for count in counts]

    assert curve.knee(linear, 100_000) is None
    assert max(asked) == 200_000
    assert len(asked) < 300


def test_laws_and_simulation_use_the_same_knee_and_the_same_reach() -> None:
    for name in ("knee", "require_within_reach", "far_beyond"):
        assert getattr(forecast, name) is getattr(whatif, name) is getattr(curve, name)

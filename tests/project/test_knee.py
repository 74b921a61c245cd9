"""The knee: from there on no doubling of the workers adds 50 %, for laws and simulation."""

from collections.abc import Callable, Sequence

import pytest

from paceline.project import curve
from paceline.project.laws import forecast
from paceline.project.questions import whatif


def rates(throughput: Callable[[int], float]) -> Callable[[Sequence[int]], list[float]]:
    return lambda counts: [throughput(count) for count in counts]


def pays(throughput: Callable[[int], float], count: int) -> bool:
    return throughput(2 * count) >= 1.5 * max(throughput(n) for n in range(1, count + 1))


def by_definition(throughput: Callable[[int], float], most: int) -> int | None:
    """Count by count: the first one after the last whose doubling pays."""
    last = max((n for n in range(1, most + 1) if pays(throughput, n)), default=0)
    return None if last == most else last + 1


@pytest.mark.parametrize("most", [1, 2, 3, 15, 16, 17, 31, 100, 1000])
@pytest.mark.parametrize("serial", [0.9, 0.3, 0.1, 0.03, 0.01, 0.001, 1e-5])
def test_it_is_the_first_count_after_the_last_that_pays(serial: float, most: int) -> None:
    def amdahl(workers: int) -> float:
        return workers / (1 + serial * (workers - 1))

    assert curve.knee(rates(amdahl), most) == curve.Knee(by_definition(amdahl, most))


def test_a_later_doubling_that_pays_lifts_it_and_the_weak_stretch_is_named() -> None:
    def nodes_of_eight(workers: int) -> float:
        return workers if workers <= 8 else 0.6 * workers

    found = curve.knee(rates(nodes_of_eight), 64)
    assert found.workers is None is by_definition(nodes_of_eight, 64)
    assert found.weak == ((5, 9),), "at 9 there is less than at 8"

    def weak_start(workers: int) -> float:
        return 219 if workers == 1 else 114.5 * workers / (1 + 0.01 * workers)

    found = curve.knee(rates(weak_start), 128)
    assert (found.workers, found.weak) == (by_definition(weak_start, 128), ((1, 1),))


def test_a_doubling_that_only_regains_what_was_lost_does_not_pay() -> None:
    def collapses(workers: int) -> float:
        return 100.0 * workers if workers <= 8 else 15.0 * workers

    assert curve.knee(rates(collapses), 32).workers == 5
    assert by_definition(collapses, 32) == 5


def test_it_is_looked_for_at_few_counts() -> None:
    asked: list[int] = []

    def linear(counts: Sequence[int]) -> list[float]:
        asked.extend(counts)
        return [float(count) for count in counts]

    assert curve.knee(linear, 100_000) == curve.Knee(None)
    assert max(asked) == 200_000
    assert len(asked) < 300


def test_laws_and_simulation_use_the_same_knee_and_the_same_reach() -> None:
    for name in ("knee", "require_within_reach", "far_beyond"):
        assert getattr(forecast, name) is getattr(whatif, name) is getattr(curve, name)

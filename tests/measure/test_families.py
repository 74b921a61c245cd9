"""Of equal settings hardly any is called slower, however many there are; of two, a difference is found as ever."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from measure.made import run, turns

from paceline.measure.families import Difference, Family, families, turns_needed
from paceline.measure.scaling import Setting, scaling_rows
from paceline.record import Record

SIMULATION = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "families.py"))
false_alarms, found = SIMULATION["false_alarms"], SIMULATION["found"]


def pair(first: list[Record], second: list[Record]) -> Difference:
    a, b = tuple(first), tuple(second)
    return Family((a, b), 1).difference(a, b)


def test_a_difference_is_named_with_its_size() -> None:
    a, b = turns([110, 111, 109]), turns([100, 100, 100], strategy="allreduce")
    assert pair(a, b).verdict.startswith("10.0% faster (")
    assert pair(b, a).verdict.startswith("9.1% slower (")
    assert pair(a, b).seen
    same = pair(a, turns([109, 112, 110], strategy="allreduce"))
    assert (same.seen, same.verdict) == (False, "not measurably different")


def test_the_difference_seen_from_the_other_side_is_its_inverse() -> None:
    a, b = turns([110, 115, 109]), turns([100, 98, 100], strategy="allreduce")
    there, back = pair(a, b).ratio, pair(b, a).ratio
    assert there is not None
    assert back is not None
    assert (back.value, back.low, back.high) == pytest.approx((1 / there.value, 1 / there.high, 1 / there.low))  # type: ignore[operator]


def test_one_turn_shows_no_difference_however_narrow_its_intervals_are() -> None:
    answer = pair([run(100, within=1e-4)], [run(150, within=1e-4, strategy="allreduce")])
    assert (answer.seen, answer.verdict) == (False, "not known: a difference takes two turns or more")


def share_seen(faster: float, count: int, *, varies: float = 0.01, studies: int = 1000) -> float:
    """In how many studies a difference is seen, where every run varies by so much and turns by five times that."""
    random = np.random.default_rng(count)
    seen = 0
    for _ in range(studies):
        weather = 100 * np.exp(5 * varies * random.standard_normal(count))
        a, b = weather * np.exp(varies * random.standard_normal((2, count))) * [[faster], [1.0]]
        seen += pair(turns(a.tolist()), turns(b.tolist(), strategy="allreduce")).seen
    return seen / studies


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_where_there_is_no_difference_hardly_any_is_seen(count: int) -> None:
    assert 0.03 <= share_seen(1.0, count) <= 0.07


def test_a_difference_of_three_percent_is_seen_in_five_turns_that_vary_by_one() -> None:
    assert share_seen(1.03, 5, studies=400) > 0.9
    assert share_seen(1.03, 2, studies=400) < 0.5, "two turns are few"


@pytest.mark.parametrize("settings", [5, 10, 20])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_of_many_equal_settings_some_is_called_slower_in_one_study_of_twenty(settings: int, correlation: float) -> None:
    studies = 400 if settings < 20 else 150
    assert false_alarms(studies, settings, 5, correlation=correlation) <= 0.05
    uncorrected = false_alarms(50, settings, 5, correlation=correlation, comparisons=1)
    assert uncorrected > 0.15, "the simulation would not notice if the correction were gone"


@pytest.mark.parametrize(("settings", "noise"), [(2, 0.01), (2, 0.02), (10, 0.02)])
def test_as_many_turns_as_are_said_to_be_needed_find_the_difference(settings: int, noise: float) -> None:
    needed = turns_needed(noise, 0.05, settings=settings)
    assert needed is not None
    assert 0.83 <= found(300, settings, needed, noise) <= 0.99
    assert found(300, settings, max(2, needed // 2), noise) < 0.8


def test_what_would_take_hundreds_of_turns_is_not_promised() -> None:
    assert turns_needed(0.2, 0.01) is None
    assert turns_needed(0.01, 0.01) is not None


def test_what_cannot_be_shown_shrinks_with_turns_and_grows_with_settings() -> None:
    random = np.random.default_rng(1)

    def smallest(settings: int, count: int) -> float:
        rates = 100 * np.exp(0.01 * random.standard_normal((settings, count)))
        made = [tuple(turns(row.tolist(), strategy="allreduce", seed=i)) for i, row in enumerate(rates)]
        (family,) = families(scaling_rows([record for setting in made for record in setting]))
        value = family.table.smallest
        assert value is not None
        return value

    assert smallest(2, 30) < 0.01 < smallest(2, 4) < smallest(20, 3)


def test_a_missing_run_costs_its_own_turn_only() -> None:
    a, b, c = (tuple(turns([100.0 + i, 101, 99, 100], strategy="allreduce", seed=i)) for i in range(3))
    family = Family((a, b, c[:3]), 3)
    assert family.table.turns == 3
    one = family.table.ratio(0, 1)
    assert one is not None
    assert one.value == pytest.approx((100 / 101) ** (1 / 4))


def test_alternatives_have_as_many_workers_and_baselines_are_none() -> None:
    records = [
        *turns([100, 101]),
        *(one for workers in (1, 2) for one in turns([180, 181], workers=workers, strategy="allreduce")),
        *(one for workers in (1, 2) for one in turns([170, 171], workers=workers, strategy="ps")),
        *turns([190, 191], workers=2, strategy="independent"),
    ]
    found = families(scaling_rows(records))
    described = [[(s[0].spec.strategy, s[0].spec.workers) for s in family.settings] for family in found]
    assert described == [[("allreduce", 1), ("ps", 1)], [("allreduce", 2), ("ps", 2)]]
    assert [family.comparisons for family in found] == [2, 2]
    alone: list[Setting] = [tuple(turns([100, 101], seed=seed)) for seed in (1, 2)]
    (family,) = families(scaling_rows([record for setting in alone for record in setting]))
    assert family.settings == tuple(alone), "an A/A study of one worker alone"

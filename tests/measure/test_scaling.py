"""Speed-up and efficiency against one worker on one device, with intervals from repeats in turns."""

import math
from typing import Any

import numpy as np
import pytest
from measure.made import run, turns

from paceline.measure.families import Family
from paceline.measure.scaling import ScalingRow, scaling_rows


def values(row: ScalingRow) -> tuple[float | None, ...]:
    ratios = (row.speedup, row.efficiency)
    return row.ideal, *(None if ratio is None else ratio.value for ratio in ratios)


def test_ideal_is_the_devices_times_the_rate_of_one_worker_alone() -> None:
    one, four = scaling_rows([run(100), run(300, workers=4)])
    assert values(one) == (100, 1, 1)
    assert values(four) == (400, 3, 0.75)
    assert (one.scaling, four.scaling) == (None, "weak")
    assert one.notes == ()


def test_servers_on_devices_of_their_own_count_as_devices() -> None:
    _, own, shared = scaling_rows(
        [
            run(100),
            run(180, workers=2, devices=4, strategy="ps:servers=2,place=own"),
            run(180, workers=2, devices=2, strategy="ps:servers=2,place=shared"),
        ]
    )
    assert values(own) == pytest.approx((400, 1.8, 0.45))
    assert values(shared) == pytest.approx((200, 1.8, 0.9))


def test_workers_that_share_a_device_do_not_make_the_ideal_larger() -> None:
    _, sharing = scaling_rows([run(100), run(120, workers=4, devices=1)])
    assert values(sharing) == (100, 1.2, 1.2)


def test_without_a_one_worker_run_nothing_is_claimed() -> None:
    (row,) = scaling_rows([run(300, workers=4)])
    assert values(row) == (None, None, None)
    assert row.baseline == ()


def test_one_worker_with_a_strategy_is_a_row_and_not_a_baseline() -> None:
    (row,) = scaling_rows([run(90, workers=1, strategy="allreduce")])
    assert row.ideal is None


def test_of_several_baselines_the_fastest_is_taken_so_that_nothing_is_flattered() -> None:
    *_, two = scaling_rows([run(90, seed=1), run(100, seed=2), run(80, seed=3), run(150, workers=2)])
    assert values(two) == (200, 1.5, 0.75)


OTHER = [
    {"workload": "nmt"},
    {"batch": 16},
    {"precision": "bf16"},
    {"feed": "synthetic"},
    {"accumulate": 2},
    {"cores_per_device": 2},
    {"timing": "fixed:warmup=10,steps=20"},
    {"place": {"host": "elsewhere"}},
    {"place": {"versions": {"torch": "2.12.0"}}},
    {"source": "MNIST"},
]


@pytest.mark.parametrize("other", OTHER)
def test_a_run_of_another_kind_is_no_baseline(other: dict[str, Any]) -> None:
    _, row = scaling_rows([run(100, **other), run(150, workers=3)])
    assert row.ideal is None
    _, like = scaling_rows([run(100, **other), run(150, workers=3, **other)])
    assert like.ideal == 300


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"place": {"host": "elsewhere"}}, "host differs (elsewhere and here)"),
        ({"place": {"versions": {"torch": "2.12.0"}}}, "torch version differs (2.12.0 and 2.13.0)"),
        ({"source": "MNIST"}, "data source differs (MNIST and generated)"),
    ],
)
def test_what_keeps_records_from_being_compared_is_said(other: dict[str, Any], why: str) -> None:
    first, second = run(100, **other), run(150, workers=2)
    assert scaling_rows([first, second])[1].notes == (f"Not compared with the one-worker run: {why}.",)
    answer = Family(((first,), (second,)), 1).difference((first,), (second,))
    assert (answer.ratio, answer.seen, answer.verdict) == (None, False, f"not compared: {why}")


def test_strong_scaling_is_against_one_worker_with_the_batch_of_all() -> None:
    one, two, four = scaling_rows([run(100, batch=64), run(180, workers=2, batch=32), run(300, workers=4, batch=16)])
    assert (one.scaling, two.scaling, four.scaling) == (None, "strong", "strong")
    assert values(two) == (200, 1.8, 0.9)
    assert values(four) == (400, 3, 0.75)


def test_where_both_baselines_are_there_it_is_weak_unless_strong_is_asked_for() -> None:
    records = [run(100, batch=32), run(120, batch=64), run(180, workers=2, batch=32)]
    assert values(scaling_rows(records)[2]) == (200, 1.8, 0.9)
    strong = scaling_rows(records, scaling="strong")[2]
    assert (strong.scaling, *values(strong)) == ("strong", 240, 1.5, 0.75)
    assert scaling_rows(records[::2], scaling="strong")[1].ideal is None


def test_repeats_are_one_row_in_order_of_turn_and_rows_keep_their_order() -> None:
    one, two = turns([100, 101, 102]), turns([150, 151, 152], workers=2)
    rows = scaling_rows([two[2], one[0], two[0], one[2], two[1], one[1]])
    assert [row.records for row in rows] == [tuple(two), tuple(one)]
    assert rows[0].baseline == tuple(one)


def test_figures_over_repeats_fit_together() -> None:
    _, row = scaling_rows([*turns([100, 90, 104]), *turns([150, 149, 170], workers=2)])
    assert row.ideal is not None
    assert row.efficiency is not None
    assert row.efficiency.value == pytest.approx(row.throughput.value / row.ideal)
    assert row.throughput.value == pytest.approx((150 * 149 * 170) ** (1 / 3))


def test_of_one_record_the_throughput_is_its_own() -> None:
    (row,) = scaling_rows([run(100, within=0.03)])
    assert (row.throughput.value, row.throughput.low, row.throughput.high) == pytest.approx((100, 97, 103))


def test_what_slowed_a_whole_turn_cancels_in_its_ratio() -> None:
    weather = [1.0, 0.7, 0.9, 1.1]
    _, row = scaling_rows([*turns([100 * w for w in weather]), *turns([180 * w for w in weather], workers=2)])
    assert row.speedup is not None
    assert (row.speedup.value, row.speedup.low, row.speedup.high) == pytest.approx((1.8, 1.8, 1.8))
    assert any(note.startswith("Repeats differ by up to 57%") for note in row.notes)


def test_an_interval_over_turns_is_students_of_the_logarithms() -> None:
    _, row = scaling_rows([*turns([100, 100, 100]), *turns([150, 160, 170], workers=2)])
    logs = np.log([1.5, 1.6, 1.7])
    reach = 4.30265 * logs.std(ddof=1) / math.sqrt(3)
    assert row.speedup is not None
    ends = [math.exp(logs.mean() - reach), math.exp(logs.mean() + reach)]
    assert [row.speedup.low, row.speedup.high] == pytest.approx(ends, rel=1e-4)
    assert row.efficiency is not None
    assert [row.efficiency.low, row.efficiency.high] == pytest.approx([end / 2 for end in ends], rel=1e-4)


def test_one_turn_combines_the_runs_own_intervals_and_says_so() -> None:
    _, row = scaling_rows([run(100, within=0.03), run(150, workers=2, within=0.04)])
    assert row.speedup is not None
    assert row.speedup.spread == pytest.approx(0.05, abs=0.003)
    (note,) = row.notes
    assert note.startswith("One turn only: the interval covers variation within the runs")


def test_a_rate_without_an_interval_is_not_known_and_nothing_is_derived_from_it() -> None:
    few = {"steps_timed": 5}
    _, bare = scaling_rows([run(100), run(150, workers=2, within=None, record=few)])
    why = "5 steps timed; 60 needed. Run longer, or take turns (--repeats)."
    assert (bare.throughput.known, bare.ideal, bare.speedup, bare.efficiency) == (False, 200, None, None)
    assert (bare.not_known, bare.notes) == (why, (f"The rate is not known: {why}",))
    alone, two = scaling_rows([run(100, within=None, record=few), run(150, workers=2)])
    assert (alone.speedup, alone.not_known) == (None, why)
    assert (two.throughput.known, two.ideal, two.speedup, two.efficiency) == (True, None, None, None)
    assert two.not_known == f"the rate of one worker alone is not known: {why}"


@pytest.mark.parametrize(("low", "high"), [(2e-11, 2e10), (49.0, 110.0), (90.0, 201.0)])
def test_a_rate_whose_interval_spans_more_than_2x_is_not_known(low: float, high: float) -> None:
    wide = {"throughput": {"value": 100.0, "low": low, "high": high}}
    alone, two = scaling_rows([run(100), run(100, workers=2, record=wide)])
    assert alone.speedup is not None
    assert (two.throughput.known, two.speedup, two.efficiency, two.below_ideal) == (False, None, None, None)
    assert two.not_known == "its 95 % interval spans more than 2x. Run longer, on a quieter machine."


def test_turns_that_differ_too_much_give_neither_a_rate_nor_a_ratio() -> None:
    _, two = scaling_rows([*turns([100, 100, 100]), *turns([50, 150, 400], workers=2)])
    assert (two.throughput.known, two.speedup) == (False, None)
    assert two.not_known == "its 3 turns differ too much. Take more turns (--repeats), on a quieter machine."
    _, paired = scaling_rows([*turns([100, 30, 10]), *turns([150, 45, 15], workers=2)])
    assert (paired.throughput.known, paired.speedup) == (False, None), "although the ratio is the same in every turn"


def test_fixed_timing_has_no_interval_by_design_and_is_marked() -> None:
    fixed: dict[str, Any] = {"within": None, "timing": "fixed:warmup=10,steps=20"}
    _, two = scaling_rows([run(100, **fixed), run(150, workers=2, **fixed)])
    assert two.efficiency is not None
    assert (two.efficiency.value, two.efficiency.marks, two.not_known) == (0.75, ("no interval",), None)
    assert two.notes == ("One turn only: there is no interval. Take 3 or more (--repeats).",)


def test_two_turns_are_few_and_turns_that_do_not_meet_give_no_interval() -> None:
    _, two = scaling_rows([*turns([100, 101]), *turns([150, 149], workers=2)])
    assert two.notes == ("Only 2 turns: the interval is wide. Take 3 or more (--repeats).",)
    _, missed = scaling_rows([run(100, turn=0), run(150, workers=2, turn=1)])
    assert missed.speedup is None
    assert missed.not_known == "no turn has both this run and one worker alone. Run the missing ones."


def test_runs_without_a_turn_are_paired_in_their_order() -> None:
    ones, twos = [run(rate) for rate in (100, 70, 80)], [run(rate, workers=2) for rate in (180, 126, 144)]
    _, row = scaling_rows([*ones, *twos])
    assert row.speedup is not None
    assert (row.speedup.low, row.speedup.high) == pytest.approx((1.8, 1.8))


def test_an_efficiency_far_above_one_is_flagged() -> None:
    _, impossible = scaling_rows([*turns([100, 101, 99]), *turns([260, 261, 262], workers=2)])
    assert any(
        note.startswith("Efficiency 131% is more than the devices can deliver: one") for note in impossible.notes
    )
    assert impossible.efficiency is not None
    assert impossible.efficiency.marks == ("above ideal",)
    _, chance = scaling_rows([*turns([100, 130, 90]), *turns([230, 231, 210], workers=2)])
    assert any("so this may be chance" in note for note in chance.notes)
    _, fine = scaling_rows([*turns([100, 101, 99]), *turns([202, 204, 200], workers=2)])
    assert fine.notes == ()

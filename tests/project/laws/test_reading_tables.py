from dataclasses import replace

import numpy as np
import pytest

from paceline.errors import DataError, SpecError
from paceline.project.laws.table import from_series, one_series
from paceline.references.base import Reference, Row, Series


def series(*rows: Row, unit: str | None = None, units_per_sample: float | None = None) -> Series:
    return Series(label="a", rows=rows, unit=unit, units_per_sample=units_per_sample)


def test_without_a_batch_the_time_of_a_step_is_known_up_to_a_factor() -> None:
    table = from_series("t", series(Row(workers=2, throughput=190), Row(workers=1, throughput=100)))
    assert table.seconds.tolist() == [1 / 100, 2 / 190]
    assert not table.is_step_time
    rates = table.throughput(table.at, table.seconds)
    assert rates is not None
    assert rates.tolist() == pytest.approx([100, 190])


def test_with_a_batch_of_samples_it_is_known() -> None:
    table = from_series("t", series(Row(workers=1, batch=32, throughput=320), Row(workers=2, batch=32, throughput=600)))
    assert table.is_step_time
    assert table.seconds.tolist() == pytest.approx([0.1, 64 / 600])


def test_words_are_not_samples_so_the_step_stays_unknown() -> None:
    rows = (Row(workers=1, batch=8, throughput=800), Row(workers=2, batch=8, throughput=1500))
    assert not from_series("t", series(*rows, unit="words/s")).is_step_time
    assert from_series("t", series(*rows, unit="words/s", units_per_sample=100)).is_step_time


def test_step_times_alone_give_no_throughput_and_with_a_batch_samples_per_second() -> None:
    bare = from_series("t", series(Row(workers=1, step_seconds=0.1), Row(workers=2, step_seconds=0.2)))
    assert bare.throughput(bare.at, bare.seconds) is None
    full = from_series(
        "t", series(Row(workers=1, batch=10, step_seconds=0.1), Row(workers=2, batch=10, step_seconds=0.2))
    )
    rates = full.throughput(full.at, full.seconds)
    assert rates is not None
    assert rates.tolist() == pytest.approx([100, 100])
    assert full.unit == "samples/s"


def test_where_both_are_given_once_a_speed_stands_for_a_step_time() -> None:
    rows = (Row(workers=1, throughput=50, step_seconds=2), Row(workers=4, throughput=160))
    assert from_series("t", series(*rows)).seconds.tolist() == pytest.approx([2, 2.5])


def test_the_batch_of_all_workers_is_divided_among_them() -> None:
    rows = (Row(workers=1, global_batch=64, throughput=10), Row(workers=4, global_batch=64, throughput=30))
    table = from_series("t", series(*rows))
    assert table.at.batch is not None
    assert table.at.batch.tolist() == [64, 16]


def test_one_worker_is_on_one_node_and_nodes_that_are_partly_missing_are_not_used() -> None:
    known = from_series("t", series(Row(workers=1, throughput=1), Row(workers=8, nodes=2, throughput=7)))
    assert known.at.nodes is not None
    assert known.at.nodes.tolist() == [1, 2]
    partly = from_series(
        "t",
        series(Row(workers=1, throughput=1), Row(workers=4, throughput=4), Row(workers=8, nodes=2, throughput=7)),
    )
    assert partly.at.nodes is None
    assert any("Some rows have no nodes" in warning for warning in partly.warnings)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((Row(workers=1, throughput=1),), "needs at least two counts"),
        ((Row(workers=4, throughput=1), Row(workers=4, throughput=2)), "all rows have 4 workers"),
        ((Row(workers=1, throughput=1), Row(workers=2, nodes=4, throughput=2)), "4 nodes for 2 workers is not valid"),
        ((Row(workers=1), Row(workers=2)), "no row has both workers and a throughput"),
        ((Row(workers=1, throughput=1), Row(workers=2, step_seconds=1)), "only a throughput, others only a step time"),
        (
            (
                Row(workers=1, batch=1, throughput=1),
                Row(workers=2, batch=2, throughput=2),
                Row(workers=4, throughput=3),
            ),
            "some rows have a batch and others do not",
        ),
    ],
)
def test_a_table_that_says_too_little_is_refused_with_a_remedy(rows: tuple[Row, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        from_series("t", series(*rows))


SYNCED = tuple(
    Row(workers=n, nodes=n, batch=b, step_seconds=b / 100 + 0.1 * (n > 1), sync_seconds=0.1 * (n > 1))
    for n in (1, 2, 4)
    for b in (10, 20)
)


def test_what_synchronising_leaves_of_a_step_is_known_where_it_is_told() -> None:
    table = from_series("t", series(*SYNCED[:-1], replace(SYNCED[-1], sync_seconds=None)))
    rest = table.rest_seconds
    assert rest is not None
    assert rest.tolist() == pytest.approx([0.1, 0.2, 0.1, 0.2, 0.1, np.inf])
    assert table.where(table.at.workers == 2).sync_seconds == pytest.approx([0.1, 0.1])


def test_synchronising_longer_than_the_step_is_refused_with_the_line() -> None:
    rows = (*SYNCED, Row(workers=8, nodes=8, batch=10, step_seconds=0.2, sync_seconds=200, line=9))
    with pytest.raises(DataError, match=r"t, line 9: sync_seconds 200 is more than the step's 0\.2 s: .* its unit"):
        from_series("t", series(*rows))


def test_what_one_worker_is_said_to_wait_is_not_believed() -> None:
    table = from_series("t", series(replace(SYNCED[0], sync_seconds=0.09), *SYNCED[1:]))
    assert table.sync_seconds is not None
    assert table.sync_seconds[0] == 0


@pytest.mark.parametrize("share", [0.99, 0.7])
def test_synchronising_that_leaves_less_than_the_compute_is_not_used_and_that_is_told(share: float) -> None:
    rows = tuple(replace(row, sync_seconds=share * (row.step_seconds or 0)) for row in SYNCED)
    table = from_series("t", series(*rows))
    assert table.rest_seconds is None
    assert any("sync_seconds were ignored" in warning for warning in table.warnings)


def test_synchronising_is_not_used_where_the_time_of_a_step_is_not_known() -> None:
    rows = (Row(workers=1, throughput=10), Row(workers=2, throughput=19, sync_seconds=0.01))
    table = from_series("t", series(*rows))
    assert table.rest_seconds is None
    assert any("Give step_seconds or batch" in warning for warning in table.warnings)


def test_what_cannot_be_is_told() -> None:
    rising = from_series("t", series(Row(workers=1, throughput=100), Row(workers=2, throughput=300)))
    assert any("rises by 50%" in warning for warning in rising.warnings)
    apart = from_series(
        "t", series(Row(workers=1, throughput=100), Row(workers=1, throughput=200), Row(workers=2, throughput=300))
    )
    assert any("differ by 100%" in warning for warning in apart.warnings)


def test_speed_that_falls_is_told_and_equal_speed_is_not() -> None:
    falls = from_series("t", series(Row(workers=8, throughput=1700), Row(workers=16, throughput=100)))
    assert any("16 workers together are 94% slower than 8" in warning for warning in falls.warnings)
    level = from_series("t", series(Row(workers=8, throughput=1700), Row(workers=16, throughput=1650)))
    assert not level.warnings


def test_a_node_has_room_for_as_many_as_the_fullest_has() -> None:
    rows = (Row(workers=1, throughput=1), Row(workers=8, nodes=1, throughput=7), Row(workers=9, nodes=2, throughput=8))
    table = from_series("t", series(*rows))
    assert table.at.capacity == 8
    assert table.where(table.at.workers > 1).at.per_node.tolist() == [8, 8]


def test_of_several_series_one_must_be_named() -> None:
    reference = Reference(name="r", title="r", source="", series=(Series(label="a"), Series(label="b")))
    assert one_series(reference, "b").label == "b"
    with pytest.raises(SpecError, match="holds 2 series; choose with --series one of: a, b"):
        one_series(reference, None)
    with pytest.raises(SpecError, match="'c' is not in it"):
        one_series(reference, "c")


def test_some_rows_can_be_taken() -> None:
    table = from_series("t", series(*(Row(workers=n, nodes=1, batch=2, throughput=n) for n in (1, 2, 4))))
    assert table.where(np.array([True, False, True])).counts.tolist() == [1, 4]

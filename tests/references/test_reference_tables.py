"""The references as data: whole, typed, and their derived figures those that were published where that was sound."""

import dataclasses
import typing
from collections.abc import Mapping

import pytest

from paceline import references
from paceline.errors import SpecError
from paceline.references.base import Method, PublishedColumn, Reference, Row, Series
from paceline.references.layout import tables

NAMES = references.names()


def series_of(name: str, label: str) -> Series:
    return next(series for series in references.load(name).series if series.label == label)


def has_type(value: object, annotation: typing.Any) -> bool:
    """Whether a value read from a file is what the field says."""
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and all(has_type(item, arguments[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(has_type(item, arguments[1]) for item in value.values())
    if arguments:
        return any(has_type(value, alternative) for alternative in arguments)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, annotation)


def published(part: PublishedColumn | Series | Method | Row) -> dict[str, object]:
    """The fields, without what was derived from them since."""
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}


@pytest.mark.parametrize("name", NAMES)
def test_every_table_loads_with_its_source_and_values_of_the_right_type(name: str) -> None:
    reference = references.load(name)
    assert reference.name == name
    assert all((reference.title, reference.source, reference.hardware, reference.workload, reference.baseline))
    parts = [*reference.columns, *reference.series, *(s.method for s in reference.series)]
    for part in [*parts, *(row for series in reference.series for row in series.rows)]:
        hints = typing.get_type_hints(type(part))
        assert isinstance(part, PublishedColumn | Series | Method | Row)
        wrong = {f: v for f, v in published(part).items() if not has_type(v, hints[f])}
        assert wrong == {}
    assert {column.field for column in reference.columns} <= {field.name for field in dataclasses.fields(Row)}


@pytest.mark.parametrize("name", NAMES)
def test_labels_tell_the_series_of_a_table_apart(name: str) -> None:
    labels = [series.label for series in references.load(name).series]
    assert len(labels) == len(set(labels))


def test_the_five_reports_and_the_tables_for_projections_are_there() -> None:
    assert {f"seed-00{number}" for number in range(5)} <= set(NAMES)
    assert {"seed-002-again", "dgx1-p100", "gce-k80", "horovod-16", "mlperf-resnet50"} <= set(NAMES)
    counts = {name: sum(len(series.rows) for series in references.load(name).series) for name in NAMES}
    assert counts["seed-000"] == 9 + 10 + 1
    assert counts["seed-001"] == 4
    assert counts["seed-002"] == 5 * 8
    assert counts["seed-003"] == 2 * 4 * 4
    assert counts["seed-004"] == 3 * (4 + 2 + 1)
    assert counts["dgx1-p100"] == counts["gce-k80"] == 5 * 4


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match="Did you mean 'seed-002'"):
        references.load("seed-02")


@pytest.mark.parametrize("label", [series.label for series in references.load("seed-002").series])
def test_speedups_of_report_002_are_the_published_ones_to_the_last_digit(label: str) -> None:
    series = series_of("seed-002", label)
    published = {row.workers: row.speedup for row in series.rows if row.speedup is not None}
    assert len(published) == 7
    for row in series.rows[1:]:
        assert series.speedup(row) == pytest.approx(published[row.workers], abs=0.0051)


def test_efficiency_of_the_dgx_is_what_was_announced() -> None:
    row = series_of("dgx1-p100", "InceptionV3").rows[-1]
    assert series_of("dgx1-p100", "InceptionV3").efficiency(row) == pytest.approx(0.99, abs=0.01)


def test_horovod_reaches_what_distributed_tensorflow_does_not() -> None:
    """VGG16 on 16 GPUs: 74.7, 1308.7 and 1787.4 images/s against 130.9 of one."""
    shares = [
        series_of("horovod-16", f"{label}: VGG16").efficiency(series_of("horovod-16", f"{label}: VGG16").rows[-1])
        for label in ("distributed TensorFlow", "Horovod TCP", "Horovod RDMA")
    ]
    assert shares == pytest.approx([0.036, 0.625, 0.853], abs=0.001)


def test_where_only_speedups_are_known_they_are_taken_as_published() -> None:
    series = series_of("seed-002-again", "independent fused")
    (row,) = series.rows
    assert series.speedup(row) == 7.59
    assert series.efficiency(row) == pytest.approx(7.59 / 8)


def row(workers: int, throughput: float, **more: typing.Any) -> Row:
    return Row(workers=workers, throughput=throughput, **more)


def test_devices_that_only_serve_make_the_efficiency_smaller() -> None:
    series = Series(label="ps", rows=(row(1, 100), row(4, 300, uncounted_devices=2), row(4, 300, devices=6)))
    assert [series.efficiency(r) for r in series.rows] == [1, 0.5, 0.5]
    assert [series.speedup(r) for r in series.rows] == [1, 3, 3]


def test_workers_that_share_a_device_are_compared_with_what_the_device_gave_one() -> None:
    series = Series(label="shared", rows=(row(1, 100), row(4, 240, workers_per_device=2)))
    assert series.efficiency(series.rows[1]) == pytest.approx(1.2)


def test_rows_of_other_machines_have_no_speedup() -> None:
    series = Series(label="mixed", rows=(row(1, 100, machine="a"), row(2, 190, machine="a"), row(2, 380, machine="b")))
    assert [series.speedup(r) for r in series.rows] == [1, 1.9, None]


def test_a_baseline_has_the_batch_of_a_worker_or_of_all() -> None:
    rows = (row(1, 100, batch=32), row(1, 130, batch=64), row(2, 182, batch=32))
    assert Series(label="weak", rows=rows, scaling="weak").speedup(rows[2]) == pytest.approx(1.82)
    assert Series(label="strong", rows=rows, scaling="strong").speedup(rows[2]) == pytest.approx(1.4)


def test_a_rate_comes_from_what_was_done_in_the_time_where_it_is_not_given() -> None:
    rows = (Row(workers=1, batch=10, steps=20, seconds=4.0), Row(workers=2, batch=10, step_seconds=0.25))
    series = Series(label="times", rows=rows, units_per_sample=3)
    assert [series.rate(r) for r in rows] == [150, 240]
    assert series.speedup(rows[1]) == pytest.approx(1.6)


def test_tables_are_laid_out_with_the_original_headings() -> None:
    first = next(tables(references.load("seed-000")))
    assert first.headings == (
        *("nodes", "np", "nranks_per_gpu", "GPUs", "imgs/sec", "epochs", "total_imgs_processed"),
        *("val_loss", "GPU_util%", "time"),
    )
    assert first.lines[0] == ("1", "1", "1", "1", "12,597.28", "4", "240,000", "141.7", "70", "33.5")
    assert first.lines[1][-2:] == ("", ""), "not given is empty"


def test_a_table_with_a_column_per_series_is_laid_out_so() -> None:
    replicated, servers = tables(references.load("seed-003"))
    assert replicated.headings == (
        "#GPU",
        *("tensorpack " + at for at in ("GPU", "CPU", "Python")),
        "tensorflow/benchmarks",
    )
    assert replicated.lines[-1] == ("8", "1,612", "1,579", "1,551", "1,580.58")
    assert servers.lines[0] == ("1", "227", "227", "223", "221.68")


@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_every_table_is_laid_out(name: str) -> None:
    reference = references.load(name)
    shown = list(tables(reference))
    cells = sum(len(line) for table in shown for line in table.lines)
    assert cells
    for table in shown:
        assert {len(line) for line in table.lines} == {len(table.headings)}
    if not reference.across:
        assert sum(len(table.lines) for table in shown) == sum(len(series.rows) for series in reference.series)


def test_trailing_zeros_of_published_figures_are_kept_as_precision() -> None:
    """5.50 in report 002 is exact to a hundredth, although as a number it is 5.5."""
    assert series_of("seed-002", "ps fused").decimals == {"seconds": 3, "throughput": 3, "speedup": 2}
    assert "throughput" not in series_of("dgx1-p100", "VGG16").decimals


def test_a_reference_is_read_once_and_cannot_be_changed() -> None:
    reference: Reference = references.load("seed-002")
    assert references.load("seed-002") is reference
    with pytest.raises(dataclasses.FrozenInstanceError):
        reference.series[0].rows[0].throughput = 1.0  # type: ignore[misc]

"""Our own records as a table, so that they are audited like everybody's."""

from collections.abc import Sequence
from typing import Any

from paceline.measure.scaling import ScalingRow, scaling_rows
from paceline.record import Record
from paceline.references.base import Method, Reference, Row, Series
from paceline.timing import fixed_timing

_ONE_SERIES = ("workload", "strategy", "feed", "precision")


def from_records(name: str, records: Sequence[Record], notes: Sequence[str] = ()) -> Reference:
    """A series per workload, strategy and feed, each with the one-worker runs that it is compared with."""
    groups: dict[tuple[str, ...], list[ScalingRow]] = {}
    rows = scaling_rows(records)
    for row in rows:
        groups.setdefault(_kind(row.records[0]), []).append(row)
    alone = {id(record): row for row in rows for record in row.records}
    return Reference(
        name=name,
        title=name,
        source=f"{len(records)} of our own records.",
        notes=tuple(notes),
        series=tuple(_series(kind, group, alone) for kind, group in groups.items()),
    )


def _kind(record: Record) -> tuple[str, ...]:
    return tuple(str(record.spec.get(name)) for name in _ONE_SERIES)


def _series(kind: tuple[str, ...], group: Sequence[ScalingRow], alone: dict[int, ScalingRow]) -> Series:
    compared = [alone[id(row.baseline[0])] for row in group if row.baseline]
    rows = {id(row): row for row in (*compared, *group)}
    record = group[0].records[0]
    return Series(
        label=" ".join(kind[:3]),
        rows=tuple(_row(row) for row in rows.values()),
        workload=kind[0],
        strategy=kind[1],
        feed=kind[2],
        scaling=next((row.scaling for row in group if row.scaling is not None), None),
        unit=record.throughput.unit,
        method=_method(record),
    )


def _row(row: ScalingRow) -> Row:
    record = row.records[0]
    learning: dict[str, Any] = record.learning
    validation = learning.validation or []
    return Row(
        workers=record.spec.workers,
        devices=record.devices,
        workers_per_device=record.spec.workers_per_device,
        machine=record.environment.host,
        batch=record.spec.batch,
        throughput=row.throughput.value,
        efficiency_low=row.efficiency.low if row.efficiency is not None else None,
        samples=learning.samples_seen,
        updates=learning.updates,
        val_loss=validation[-1].loss if validation else None,
        utilisation_percent=_busy(record),
        remarks=row.notes,
    )


def _busy(record: Record) -> float | None:
    """How busy the workers kept their devices, on average."""
    shares = [device.workers_percent for device in record.utilisation if device.workers_percent is not None]
    return sum(shares) / len(shares) if shares else None


def _method(record: Record) -> Method:
    fixed = fixed_timing(record.spec.timing)
    return Method(
        window_includes=("warm-up",) if fixed is not None and fixed.warmup == 0 else (),
        steps_counted=record.steps_timed,
        steps_timed=record.steps_timed,
        rate_from="all workers",
        statistic="median" if fixed is None else "mean",
        reduction=record.learning.reduction,
        lr_rule=record.learning.lr_rule,
        same_machines=True,
    )

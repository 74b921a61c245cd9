"""Our own records as a table, so that they pass the same audit as published tables."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from paceline.measure.scaling import ScalingRow, scaling_rows
from paceline.record import Record
from paceline.references.base import Method, Reference, Row, Series
from paceline.settings import Role
from paceline.spec import SETTINGS, RunSpec, with_role
from paceline.timing import fixed_timing

_FIELDS = frozenset(field.name for field in dataclasses.fields(Series))
"""Settings that have a field in `Series` and are part of every label."""


def from_records(name: str, records: Sequence[Record], notes: Sequence[str] = ()) -> Reference:
    """Group runs that differ only in workers into series, each with the one-worker runs of its baseline."""
    groups: dict[tuple[Any, ...], list[ScalingRow]] = {}
    rows = scaling_rows(records)
    for row in rows:
        groups.setdefault(kind(row.records[0].spec, with_role(Role.SERIES)), []).append(row)
    alone = {id(record): row for row in rows for record in row.records}
    return Reference(
        name=name,
        title=name,
        source=f"{len(records)} records of Paceline runs.",
        notes=tuple(notes),
        series=tuple(_series(group, alone) for group in groups.values()),
    )


def kind(spec: RunSpec, names: Sequence[str]) -> tuple[Any, ...]:
    """The values of settings as a comparable key; a default compares equal however it was written."""
    values = ((SETTINGS[name], getattr(spec, name)) for name in names)
    return tuple(None if setting.is_default(value) else value for setting, value in values)


def label(spec: RunSpec) -> str:
    """The name of a run's series: workload, strategy and feed, then settings that differ from their defaults."""
    values = spec.by_role(Role.SERIES).items()
    shown = {name: value for name, value in values if name in _FIELDS or not SETTINGS[name].is_usual(value)}
    return " ".join(SETTINGS[name].in_words(value) for name, value in shown.items())


def _series(group: Sequence[ScalingRow], alone: dict[int, ScalingRow]) -> Series:
    compared = [alone[id(row.baseline[0])] for row in group if row.baseline]
    rows = {id(row): row for row in (*compared, *group)}
    record = group[0].records[0]
    spec = record.spec
    return Series(
        label=label(spec),
        rows=tuple(_row(row) for row in rows.values()),
        workload=spec.workload,
        strategy=spec.strategy,
        feed=spec.feed,
        scaling=next((row.scaling for row in group if row.scaling is not None), None),
        unit=record.throughput.unit,
        method=_method(record),
    )


def _row(row: ScalingRow) -> Row:
    record = row.records[0]
    learning = record.learning
    return Row(
        workers=record.spec.workers,
        nodes=len({worker.node for worker in record.per_worker}),
        devices=record.devices,
        workers_per_device=record.spec.workers_per_device,
        machine=record.environment.host,
        batch=record.batch,
        throughput=row.throughput.value if row.throughput.known else None,
        efficiency_low=row.efficiency.low if row.efficiency is not None else None,
        samples=learning.samples_seen,
        updates=learning.updates,
        val_loss=learning.validation[-1].loss if learning.validation else None,
        utilisation_percent=_busy(record),
        remarks=row.notes,
    )


def _busy(record: Record) -> float | None:
    """The mean device utilisation over the workers."""
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
        lr_rule=record.spec.lr_rule,
        same_machines=True,
    )

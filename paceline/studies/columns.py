"""The columns of a study's table: the value that each takes from a record, and its format."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.numbers import number, rate
from paceline.record import Record
from paceline.record_parts import PHASES, PhaseName, StepPercentiles
from paceline.units import human_bytes, human_seconds

NOTHING = "–"
"""The sign for a value that was not measured."""

Value = float | int | str | None

PERCENTILES = tuple(field.name for field in dataclasses.fields(StepPercentiles))
"""Percentiles of the time of a step."""


@dataclass(frozen=True)
class Column:
    """One figure of a run."""

    heading: str
    value: Callable[[Record], Value]
    """The value of one record; None if it was not measured."""

    text: Callable[[Any], str]

    def over(self, records: Sequence[Record]) -> Value:
        """The median over repeats."""
        values = [value for value in map(self.value, records) if value is not None]
        numbers = [value for value in values if not isinstance(value, str)]
        if len(numbers) < len(values) or not values:
            return values[0] if values else None
        return statistics.median(numbers)

    def written(self, value: Value) -> str:
        """The value as a table shows it."""
        return NOTHING if value is None else self.text(value)


def _percent(value: float) -> str:
    return f"{value:.0f}%"


def _utilisation(record: Record) -> float | None:
    """Device utilisation by this run's workers; by all processes on GPUs, where drivers do not report which one."""
    shares = [
        device.workers_percent if device.workers_percent is not None else device.busy_percent
        for device in record.utilisation
    ]
    known = [share for share in shares if share is not None]
    return statistics.fmean(known) if known and len(known) == len(shares) else None


def _last_loss(record: Record) -> float | None:
    return next((loss for loss in reversed(record.learning.loss) if loss is not None), None)


def _epochs(record: Record) -> float | None:
    validation = record.learning.validation
    passed = validation[-1].epoch if validation else None
    return record.spec.epochs if record.spec.epochs is not None else passed


def _memory(record: Record) -> int | None:
    return max((w.peak_memory_bytes for w in record.per_worker if w.peak_memory_bytes is not None), default=None)


def _percentile(name: str) -> Column:
    def value(record: Record) -> float | None:
        seconds: float | None = getattr(record.step_percentiles, name, None)
        return seconds

    return Column(f"{name} of steps", value, human_seconds)


def _phase(name: PhaseName) -> Column:
    return Column(f"{name} per step", lambda record: record.phases.of(name), human_seconds)


COLUMNS: Mapping[str, Column] = {
    "val_loss": Column("val_loss", lambda record: record.learning.val_loss, number),
    "loss": Column("last loss", _last_loss, number),
    "time": Column("time", lambda record: record.wall_seconds.total, human_seconds),
    "utilisation": Column("utilisation", _utilisation, _percent),
    "memory": Column("memory", _memory, human_bytes),
    "epochs": Column("epochs", _epochs, number),
    "samples": Column("samples", lambda record: record.learning.samples_seen, number),
    "updates": Column("updates", lambda record: record.learning.updates, number),
    "global_batch": Column("global batch", lambda record: record.learning.global_batch, number),
    "step": Column("step", lambda record: record.step_seconds, human_seconds),
    **{name: _percentile(name) for name in PERCENTILES},
    "mean_rate": Column("mean rate", lambda record: record.mean_rate, rate),
    "sent": Column("sent per step", lambda record: record.traffic.sent_bytes_per_worker_and_step, human_bytes),
    "data": Column("data", lambda record: record.workload.data.source, str),
    **{name: _phase(name) for name in PHASES},
}


def column(name: str) -> Column:
    """The column called `name`; any other name is a metric of the last validation."""

    def metric(record: Record) -> Value:
        validation = record.learning.validation
        value: Value = validation[-1].metrics.get(name) if validation else None
        return value

    return COLUMNS.get(name) or Column(name.replace("_", " "), metric, number)

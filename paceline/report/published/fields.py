"""The columns of published tables, filled from our records."""

import statistics
from collections.abc import Callable, Iterable, Mapping

from paceline.measure.scaling import ScalingRow
from paceline.numbers import number as digits
from paceline.numbers import rate
from paceline.record import Record
from paceline.report.tables import TableCell, interval, missing, number, word
from paceline.studies.columns import COLUMNS, Column

Field = Callable[[ScalingRow], TableCell]
"""Returns one cell of a row; its value is None where nothing was measured."""


def nodes_of(record: Record) -> int:
    """Number of nodes with workers."""
    nodes = {worker.node for worker in record.per_worker}
    return len(nodes)


def networks_of(records: Iterable[Record]) -> list[str]:
    """Networks of runs on several nodes, as they were requested."""
    return list(dict.fromkeys(record.network.asked for record in records if record.network is not None))


def machine_of(record: Record) -> str:
    """The name of the host."""
    return record.environment.host


def throughput(row: ScalingRow) -> TableCell:
    """Units per second."""
    return interval(row.throughput, rate)


def speedup(row: ScalingRow, sign: str = "") -> TableCell:
    """Speed-up over one worker alone."""
    return interval(row.speedup, "{:.2f}".format, sign, missing(row))


def seconds(written: Callable[[float], str]) -> Field:
    """Seconds of the whole run: start-up, training, validation."""
    return _over_repeats(Column("time", COLUMNS["time"].value, written))


def seconds_of_steps(count: int) -> Field:
    """Seconds of `count` steps at the mean pace of the timed ones."""
    return _over_repeats(Column("time", lambda record: count * record.step_seconds, lambda value: f"{value:.3f}"))


def in_minutes(value: float) -> str:
    """`450` → `7.5 min`."""
    return f"{value / 60:.3g} min"


def in_minutes_and_seconds(value: float) -> str:
    """`83.24` → `1m23.2s`."""
    minutes, rest = divmod(round(value, 1), 60)
    return f"{minutes:.0f}m{rest:.1f}s"


def _over_repeats(column: Column) -> Field:
    return lambda row: number(column.over(row.records), column.text)


def _epoch_loss(record: Record) -> float | None:
    """Training loss: the mean over the last epoch, as Keras prints it, or the last step's if no epoch is complete."""
    learning = record.learning
    ends = {v.step for v in learning.validation if v.epoch and v.epoch.is_integer()}
    last = learning.loss[slice(*[0, *sorted(ends)][-2:])] if ends else learning.loss[-1:]
    known = [loss for loss in last if loss is not None]
    return statistics.fmean(known) if known else None


FIELDS: Mapping[str, Field] = {
    "nodes": lambda row: number(nodes_of(row.records[0])),
    "workers": lambda row: number(row.records[0].spec.workers),
    "workers_per_device": lambda row: number(row.records[0].spec.workers_per_device),
    "devices": lambda row: number(row.records[0].devices),
    "machine": lambda row: word(machine_of(row.records[0])),
    "batch": lambda row: number(row.records[0].batch),
    "throughput": throughput,
    "speedup": speedup,
    "epochs": _over_repeats(COLUMNS["epochs"]),
    "samples": _over_repeats(COLUMNS["samples"]),
    "val_loss": _over_repeats(COLUMNS["val_loss"]),
    "loss": _over_repeats(Column("loss", _epoch_loss, digits)),
    "utilisation_percent": _over_repeats(COLUMNS["utilisation"]),
}
"""Cells by the names of the fields of reference rows."""

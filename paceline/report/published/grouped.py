"""Which of our settings stand in one published table, in which order, and what is said about all of them."""

from collections.abc import Sequence
from typing import Any

from paceline.measure.scaling import ScalingRow
from paceline.numbers import count
from paceline.report.tables import TableCell
from paceline.studies.columns import NOTHING

ONE_TABLE = ("workload", "strategy", "feed", "precision", "accumulate", "mps")
UNKNOWN = TableCell(NOTHING)


def grouped(rows: Sequence[ScalingRow], settings: Sequence[str]) -> list[list[ScalingRow]]:
    """Rows that may stand in one table, in order of first appearance; within it as people count."""
    groups: dict[tuple[Any, ...], list[ScalingRow]] = {}
    for row in rows:
        spec = row.records[0].spec
        batch = spec.batch * (spec.workers if row.scaling == "strong" else 1)
        groups.setdefault((*(spec.get(name) for name in settings), batch), []).append(row)
    return [sorted(group, key=place_of) for group in groups.values()]


def place_of(row: ScalingRow) -> tuple[int, int]:
    """Workers per device and workers: what a line or a column of a table is of."""
    spec = row.records[0].spec
    return spec.workers_per_device, spec.workers


def title_of(rows: Sequence[ScalingRow], settings: Sequence[str]) -> str:
    """What all rows share; weak or strong, batch and learning rate are always there."""
    first = rows[0].records[0].spec
    precision = [first.precision] if first.precision != "fp32" else []
    named = " · ".join(str(first[name]) for name in settings)
    return ", ".join([named, scaling_and_batch(rows), *precision, learning_rates(rows)])


def scaling_and_batch(rows: Sequence[ScalingRow]) -> str:
    """Weak or strong, and the batch that goes with it."""
    first = rows[0].records[0].spec
    if any(row.scaling == "strong" for row in rows):
        return f"strong scaling, batch {first.batch * first.workers} in all"
    return f"weak scaling, batch {first.batch} per worker"


def learning_rates(rows: Sequence[ScalingRow]) -> str:
    """The learning rates of all rows and their rules."""
    learning = [record.learning for row in rows for record in row.records]
    rates = sorted({told["lr"] for told in learning})
    rules = dict.fromkeys(told["lr_rule"] for told in learning)
    return f"lr {' to '.join(f'{lr:g}' for lr in dict.fromkeys((rates[0], rates[-1])))}, lr rule {' and '.join(rules)}"


def about_devices(rows: Sequence[ScalingRow]) -> list[str]:
    """What a column called GPU holds."""
    first = rows[0].records[0]
    if first.environment.device_kind != "cpu":
        return []
    return [f"A GPU stands for a device: here {count(first.spec.cores_per_device, 'core')}."]


def about_counts(rows: Sequence[ScalingRow]) -> list[str]:
    """Where workers share devices, or servers have some of their own."""
    runs = [row.records[0] for row in rows if row.records[0].devices != row.records[0].spec.workers]
    told = dict.fromkeys(f"{run.spec.workers} on {run.devices}" for run in runs)
    return [f"There are not as many devices as workers; workers on devices: {', '.join(told)}."] if told else []

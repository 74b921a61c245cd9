"""Which of our settings stand in one published table, in which order, and what is said about all of them."""

from collections.abc import Iterator, Sequence

from paceline.measure.scaling import ScalingRow
from paceline.numbers import count
from paceline.report.tables import TableCell
from paceline.settings import Role
from paceline.spec import SETTINGS, with_role
from paceline.studies.columns import NOTHING

UNKNOWN = TableCell(NOTHING)


def of_one_table(row: ScalingRow, *, across: str | None = None) -> tuple[object, ...]:
    """What rows of one table share; all but the setting `across`, whose values stand side by side."""
    spec = row.records[0].spec
    return (*(getattr(spec, name) for name in with_role(Role.SERIES) if name != across), spec.mps)


def grouped(rows: Sequence[ScalingRow], *, across: str | None = None) -> list[list[ScalingRow]]:
    """Rows that may stand in one table, in order of first appearance; within it as people count."""
    groups: dict[tuple[object, ...], list[ScalingRow]] = {}
    for row in rows:
        first = row.records[0]
        batch = first.batch * (first.spec.workers if row.scaling == "strong" else 1)
        groups.setdefault((*of_one_table(row, across=across), batch), []).append(row)
    return [sorted(group, key=place_of) for group in groups.values()]


def place_of(row: ScalingRow) -> tuple[int, int]:
    """Workers per device and workers: what a line or a column of a table is of."""
    spec = row.records[0].spec
    return spec.workers_per_device, spec.workers


def title_of(rows: Sequence[ScalingRow], named: Sequence[str]) -> str:
    """What all rows share, `named` first; weak or strong, batch and learning rate are always there."""
    return ", ".join([" · ".join(named), scaling_and_batch(rows), *unusual(rows[0]), learning_rates(rows)])


def unusual(row: ScalingRow) -> Iterator[str]:
    """How the workers compute, where that is not as usual."""
    spec = row.records[0].spec
    for name, one in SETTINGS.items():
        computing = one.has(Role.STEP) and one.has(Role.CHECKPOINT) and not one.has(Role.TITLE)
        if computing and one is not SETTINGS["feed"] and not one.is_usual(getattr(spec, name)):
            yield one.in_words(getattr(spec, name))


def scaling_and_batch(rows: Sequence[ScalingRow]) -> str:
    """Weak or strong, and the batch that goes with it."""
    first = rows[0].records[0]
    if any(row.scaling == "strong" for row in rows):
        return f"strong scaling, batch {first.batch * first.spec.workers} in all"
    return f"weak scaling, batch {first.batch} per worker"


def learning_rates(rows: Sequence[ScalingRow]) -> str:
    """The learning rates of all rows and their rules."""
    learning = [record.learning for row in rows for record in row.records]
    rates = sorted({one.lr for one in learning})
    rules = dict.fromkeys(one.lr_rule for one in learning)
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

"""Group our settings into published tables, with their order, titles and notes."""

from collections.abc import Iterator, Sequence

from paceline.measure.scaling import ScalingRow
from paceline.numbers import count
from paceline.report.tables import TableCell
from paceline.settings import Role
from paceline.spec import SETTINGS, with_role
from paceline.studies.columns import NOTHING

UNKNOWN = TableCell(NOTHING)


def of_one_table(row: ScalingRow, *, across: str | None = None) -> tuple[object, ...]:
    """The settings that rows of one table share: all except `across`, whose values are columns."""
    spec = row.records[0].spec
    return (*(getattr(spec, name) for name in with_role(Role.SERIES) if name != across), spec.mps)


def grouped(rows: Sequence[ScalingRow], *, across: str | None = None) -> list[list[ScalingRow]]:
    """Rows grouped into tables in order of first appearance; within a table by count of workers."""
    groups: dict[tuple[object, ...], list[ScalingRow]] = {}
    for row in rows:
        first = row.records[0]
        batch = first.batch * (first.spec.workers if row.scaling == "strong" else 1)
        groups.setdefault((*of_one_table(row, across=across), batch), []).append(row)
    return [sorted(group, key=place_of) for group in groups.values()]


def place_of(row: ScalingRow) -> tuple[int, int]:
    """Workers per device and workers, which identify a row or a column of a table."""
    spec = row.records[0].spec
    return spec.workers_per_device, spec.workers


def title_of(rows: Sequence[ScalingRow], named: Sequence[str]) -> str:
    """A title with what all rows share: `named`, scaling, batch, unusual settings and learning rates."""
    return ", ".join([" · ".join(named), scaling_and_batch(rows), *unusual(rows[0]), learning_rates(rows)])


def unusual(row: ScalingRow) -> Iterator[str]:
    """Settings of the computation that differ from the usual ones, as texts."""
    spec = row.records[0].spec
    for name, one in SETTINGS.items():
        computing = one.has(Role.STEP) and one.has(Role.CHECKPOINT) and not one.has(Role.TITLE)
        if (
            (computing or one is SETTINGS["mps"])
            and one is not SETTINGS["feed"]
            and not one.is_usual(getattr(spec, name))
        ):
            yield one.in_words(getattr(spec, name))


def scaling_and_batch(rows: Sequence[ScalingRow]) -> str:
    """Weak or strong scaling with its batch."""
    first = rows[0].records[0]
    if any(row.scaling == "strong" for row in rows):
        return f"strong scaling, batch {first.batch * first.spec.workers} in total"
    return f"weak scaling, batch {first.batch} per worker"


def learning_rates(rows: Sequence[ScalingRow]) -> str:
    """The learning rates of all rows, and their rules."""
    learning = [record.learning for row in rows for record in row.records]
    rates = sorted({one.lr for one in learning})
    rules = dict.fromkeys(one.lr_rule for one in learning)
    return f"lr {' to '.join(f'{lr:g}' for lr in dict.fromkeys((rates[0], rates[-1])))}, lr rule {' and '.join(rules)}"


def about_devices(rows: Sequence[ScalingRow]) -> list[str]:
    """A note on what a column called GPU means for runs on a CPU."""
    first = rows[0].records[0]
    if first.environment.device_kind != "cpu":
        return []
    return [f"GPU means a device: in these runs {count(first.spec.cores_per_device, 'core')}."]


def about_counts(rows: Sequence[ScalingRow]) -> list[str]:
    """A note where the number of devices differs from the number of workers."""
    runs = [row.records[0] for row in rows if row.records[0].devices != row.records[0].spec.workers]
    pairs = dict.fromkeys(f"{run.spec.workers} on {run.devices}" for run in runs)
    return [f"Counts of devices and workers differ; workers on devices: {', '.join(pairs)}."] if pairs else []

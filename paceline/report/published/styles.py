"""Our results in the layouts of published tables, so that their readers find the same columns."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from paceline import references
from paceline.grammar import choose
from paceline.measure.scaling import ScalingRow
from paceline.report.published.counts_across import by_workload
from paceline.report.published.feeds_across import by_feed
from paceline.report.published.fields import in_minutes, in_minutes_and_seconds, seconds, seconds_of_steps
from paceline.report.published.listed import Listed
from paceline.report.section import Section
from paceline.report.tables import PageTable


def named(style: str) -> str:
    """The style called so; an unknown one is refused with the nearest."""
    return choose(style, _STYLES, "table style")


def tables(style: str, rows: Sequence[ScalingRow]) -> tuple[PageTable, ...]:
    """The rows in a style; what is to be noted is said once."""
    made = _STYLES[named(style)](rows)
    said: set[str] = set()
    found = []
    for index, table in enumerate(made):
        notes = tuple(note for note in table.notes if note not in said)
        said.update(notes)
        found.append(dataclasses.replace(table, name=f"{style}-{index + 1}", notes=notes))
    return tuple(found)


def section(style: str, rows: Sequence[ScalingRow]) -> Section:
    """The same as a part of the report."""
    reference = references.load(named(style))
    return Section(
        name="style",
        title=f"In the layout of {style}",
        words=(f"Our figures in the columns of: {reference.source}",),
        tables=tables(style, rows),
    )


_STYLES: Mapping[str, Callable[[Sequence[ScalingRow]], list[PageTable]]] = {
    "seed-000": Listed("seed-000", seconds(in_minutes_and_seconds)),
    "seed-001": Listed("seed-001", seconds(in_minutes)),
    "seed-002": Listed("seed-002", seconds_of_steps(20)),
    "seed-003": by_feed,
    "seed-004": by_workload,
}

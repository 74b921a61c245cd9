"""Lay out our results like published tables, so that their readers find the same columns."""

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
    """Check the name of a style; refuse an unknown one and suggest the nearest."""
    return choose(style, _STYLES, "table style")


def tables(style: str, rows: Sequence[ScalingRow]) -> tuple[PageTable, ...]:
    """The tables of a style; a note appears only once."""
    made = _STYLES[named(style)](rows)
    noted: set[str] = set()
    unique = []
    for index, table in enumerate(made):
        notes = tuple(note for note in table.notes if note not in noted)
        noted.update(notes)
        unique.append(dataclasses.replace(table, name=f"{style}-{index + 1}", notes=notes))
    return tuple(unique)


def section(style: str, rows: Sequence[ScalingRow]) -> Section:
    """The tables as a section of the report."""
    reference = references.load(named(style))
    return Section(
        name="style",
        title=f"Results in the layout of {style}",
        words=(f"Our figures, with the columns of: {reference.source}",),
        tables=tables(style, rows),
    )


_STYLES: Mapping[str, Callable[[Sequence[ScalingRow]], list[PageTable]]] = {
    "seed-000": Listed("seed-000", seconds(in_minutes_and_seconds)),
    "seed-001": Listed("seed-001", seconds(in_minutes)),
    "seed-002": Listed("seed-002", seconds_of_steps(20)),
    "seed-003": by_feed,
    "seed-004": by_workload,
}

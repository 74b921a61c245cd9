"""The layout of seed-000, seed-001 and seed-002: a row per setting, with the reference's own columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from paceline import references
from paceline.measure.scaling import ScalingRow
from paceline.references.base import PublishedColumn, Reference
from paceline.report.published.fields import FIELDS, Field
from paceline.report.published.grouped import about_counts, about_devices, grouped, title_of
from paceline.report.tables import PageTable

_NOUNS = re.compile("imgs|images?|words|frames")


@dataclass(frozen=True)
class Listed:
    """A table per workload, strategy and feed, a row per setting, with the columns of a reference."""

    name: str
    seconds: Field
    """The column that the original calls time."""

    def __call__(self, rows: Sequence[ScalingRow]) -> list[PageTable]:
        reference = references.load(self.name)
        return [self._table(group, reference) for group in grouped(rows)]

    def _table(self, rows: Sequence[ScalingRow], reference: Reference) -> PageTable:
        columns, spec = reference.columns, rows[0].records[0].spec
        shown = {column.field for column in columns}
        fields = {**FIELDS, "seconds": self.seconds}
        return PageTable(
            name=self.name,
            title=title_of(rows, (spec.workload, spec.strategy, spec.feed)),
            headings=tuple(_heading(column, rows) for column in columns),
            rows=tuple(tuple(fields[column.field](row) for column in columns) for row in rows),
            notes=(
                *about_devices(rows),
                *([] if "devices" in shown else about_counts(rows)),
                *_about_speedups(rows, shown, reference),
            ),
        )


def _heading(column: PublishedColumn, rows: Sequence[ScalingRow]) -> str:
    """The original heading, with the unit of our workload."""
    noun = rows[0].records[0].workload.unit
    theirs = _NOUNS.search(column.heading)
    if column.field not in ("throughput", "samples") or theirs is None or theirs[0][:2] == noun[:2]:
        return column.heading
    return column.heading.replace(theirs[0], noun if column.field == "throughput" else "samples")


def _about_speedups(rows: Sequence[ScalingRow], shown: set[str], reference: Reference) -> list[str]:
    if "speedup" not in shown or not any(row.baseline for row in rows):
        return []
    return [f"Our speed-ups are relative to one worker alone on one device; the original's to: {reference.baseline}."]

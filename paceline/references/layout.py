"""A reference in its original layout: the original headings, in the original order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.references.base import Reference, Series

_OF = ": "


@dataclass(frozen=True)
class PublishedTable:
    """A table as text: headings and lines."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


def tables(reference: Reference) -> Iterator[PublishedTable]:
    """A table per series, or one per group of series where the original has a column per series."""
    drawn = [series for series in reference.series if series.rows]
    if not reference.across:
        headings = tuple(column.heading for column in reference.columns)
        for series in drawn:
            yield PublishedTable(series.label, headings, tuple(_lines(reference, series)))
        return
    groups: dict[str, list[Series]] = {}
    for series in drawn:  # "replicated: tensorpack GPU" is a column of the group "replicated"
        groups.setdefault(series.label.rpartition(_OF)[0], []).append(series)
    for title, group in groups.items():
        yield _across(reference, title, group)


def _lines(reference: Reference, series: Series) -> Iterator[tuple[str, ...]]:
    for row in series.rows:
        yield tuple(_text(getattr(row, column.field)) for column in reference.columns)


def _across(reference: Reference, title: str, group: Sequence[Series]) -> PublishedTable:
    key, value = (column.field for column in reference.columns)
    keys = dict.fromkeys(getattr(row, key) for series in group for row in series.rows)
    cells = {(series.label, getattr(row, key)): _text(getattr(row, value)) for series in group for row in series.rows}
    lines = tuple((_text(k), *(cells.get((series.label, k), "") for series in group)) for k in keys)
    headings = (reference.columns[0].heading, *(series.label.rpartition(_OF)[2] for series in group))
    return PublishedTable(f"{title}, {reference.columns[1].heading}".removeprefix(", "), headings, lines)


def _text(value: float | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:,}"

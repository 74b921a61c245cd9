"""The parts of a report: sections with paragraphs, tables and charts."""

from dataclasses import dataclass
from typing import Any

from paceline.report.tables import PageTable


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart, for the page and for pictures."""

    name: str
    """One word, used in file names."""

    title: str
    """The main result, or what the chart shows."""

    subtitle: str
    """The conditions of the measurement."""

    specification: dict[str, Any]
    """The chart as Vega-Lite, without colours and fonts."""

    line: str | None = None
    """The only curve in it; the chart is shown when this curve is."""

    lines: tuple[str, ...] | None = None
    """The only curves that it can show; None for all."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of the report."""

    name: str
    """One word, used as the anchor."""

    title: str
    words: tuple[str, ...] = ()
    """The paragraphs."""

    charts: tuple[Chart, ...] = ()
    tables: tuple[PageTable, ...] = ()

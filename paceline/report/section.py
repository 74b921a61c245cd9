"""The parts of a report: sections with paragraphs, tables and charts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt

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

    definition: alt.LayerChart
    line: str | None = None
    """The only curve in it; the chart is shown when this curve is."""

    lines: tuple[str, ...] | None = None
    """The only curves that it can show; None for all."""

    @cached_property
    def specification(self) -> dict[str, Any]:
        """The chart as Vega-Lite, without colours and fonts."""
        drawn: dict[str, Any] = self.definition.to_dict()
        return {name: part for name, part in drawn.items() if name != "config"}


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

"""What the report consists of: sections with words, tables and charts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt

from paceline.report.tables import PageTable


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One definition for the page and for pictures."""

    name: str
    """Of files; a word."""

    title: str
    """The finding, or what is drawn."""

    subtitle: str
    """Under which conditions."""

    definition: alt.LayerChart
    line: str | None = None
    """The only curve it is about, so that it is shown when its curve is."""

    lines: tuple[str, ...] | None = None
    """The only curves it can show; None: all."""

    @cached_property
    def specification(self) -> dict[str, Any]:
        """As Vega-Lite, without colours and fonts."""
        drawn: dict[str, Any] = self.definition.to_dict()
        return {name: part for name, part in drawn.items() if name != "config"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """One question and its answer."""

    name: str
    """Of the anchor; a word."""

    title: str
    words: tuple[str, ...] = ()
    """A paragraph each."""

    charts: tuple[Chart, ...] = ()
    tables: tuple[PageTable, ...] = ()

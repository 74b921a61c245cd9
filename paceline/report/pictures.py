"""Charts as pictures, from the same definition as on the page."""

import textwrap
from typing import Any

import altair as alt
import vl_convert

from paceline.report import charts
from paceline.report.section import Chart

_TITLE_CHARACTERS = 88
_SUBTITLE_CHARACTERS = 112
_PIXELS_PER_PIXEL = 1.5
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The version that Altair writes for; the page's bundle has the same."""


def svg(chart: Chart) -> str:
    """On white, as wide as a page of text."""
    return vl_convert.vegalite_to_svg(_for_paper(chart), vl_version=VEGA_LITE)


def png(drawn: str) -> bytes:
    """Of an SVG; most of the time of a report goes into this, and it grows with the pixels."""
    return vl_convert.svg_to_png(drawn, scale=_PIXELS_PER_PIXEL)


def _for_paper(chart: Chart) -> dict[str, Any]:
    title = {
        "text": textwrap.wrap(chart.title, _TITLE_CHARACTERS),
        "subtitle": textwrap.wrap(chart.subtitle, _SUBTITLE_CHARACTERS),
    }
    return {**chart.specification, "width": charts.WIDTH, "title": title, "config": charts.theme(dark=False)}

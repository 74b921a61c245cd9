"""Charts as SVG and PNG, from the same definition as on the page."""

import textwrap

import altair as alt
import vl_convert

from paceline.report import charts
from paceline.report.section import Chart

_TITLE_CHARACTERS = 88
_SUBTITLE_CHARACTERS = 112
_PIXELS_PER_PIXEL = 1.5
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The Vega-Lite version that Altair writes; the page bundles the same."""


def svg(chart: Chart) -> str:
    """The chart as SVG on white."""
    return vl_convert.vegalite_to_svg(_for_paper(chart), vl_version=VEGA_LITE)


def png(drawn: str) -> bytes:
    """Render an SVG as PNG; this takes most of a report's time, in proportion to the pixels."""
    return vl_convert.svg_to_png(drawn, scale=_PIXELS_PER_PIXEL)


def _for_paper(chart: Chart) -> charts.Datum:
    title = {
        "text": textwrap.wrap(chart.title, _TITLE_CHARACTERS),
        "subtitle": textwrap.wrap(chart.subtitle, _SUBTITLE_CHARACTERS),
    }
    return {**chart.specification, "width": charts.WIDTH, "title": title, "config": charts.theme(dark=False)}

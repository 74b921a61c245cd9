"""What all charts share: which curves are shown, colours with shapes and dashes, light and dark themes."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

Datum = dict[str, Any]
"""One row of a chart's data, or part of a Vega-Lite specification: JSON that goes into the page."""

SHOWN = "shown"
"""The signal that holds the curves to show; the page sets it."""

COLUMNS = "legend_columns"
"""The signal that holds the number of columns that fit into a legend; the page sets it."""

CHARACTERS = "legend_characters"
"""The signal that holds the number of characters that fit into a line of a legend; the page sets it."""

ROW_CHARACTERS = "row_characters"
"""The signal that holds the number of characters that fit above a bar; the page sets it."""

WIDTH = 760
"""Width of a picture in pixels."""

HEIGHT = 340
BAND = {"step": 42}
"""Height in pixels of a row with its name above its bar."""

BAR = 16
BELOW_NAME = 12
"""Pixels from the middle of a row to the middle of its bar."""

# Distinguishable with all common types of colour blindness (after Okabe and Ito), on white and on black.
_LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b8559a", "#e69f00", "#56b4e9", "#6b6b6b", "#7f4f24")
_DARK = ("#4ba3e3", "#f28a45", "#2fc79b", "#e39ac8", "#f5bf4f", "#9ad4f7", "#b4b4b4", "#c69c72")
# Background, text, secondary text and grid lines, as in page.css.
_LIGHT_PAGE = ("#ffffff", "#1c1f23", "#5c6166", "#e3e5e8")
_DARK_PAGE = ("#15181b", "#e8e8e8", "#a8a8a8", "#3a3f44")
# Fewer than colours: a ninth curve repeats the first colour with another shape and other dashes.
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left")
_DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 3], [6, 2, 2, 2])


_STYLES = {
    "ideal": {"strokeDash": [0.1, 5], "strokeWidth": 2.4, "strokeCap": "round"},
    "knee": {"strokeDash": [10, 4], "strokeWidth": 1.2},
    "interval": {"strokeWidth": 1.6},
    "remark": {"align": "right", "fontSize": 12},
    "name": {"align": "left", "baseline": "bottom"},
}
"""Named styles of marks that several charts use."""


def theme(*, dark: bool) -> Datum:
    """Vega's configuration for a light or a dark page."""
    paper, ink, faint, grid = _DARK_PAGE if dark else _LIGHT_PAGE
    axis = dict.fromkeys(("gridColor", "domainColor", "tickColor"), grid)
    axis |= dict.fromkeys(("labelColor", "titleColor"), faint)
    sizes = {"fontSize": 15, "subtitleFontSize": 12, "offset": 14, "subtitlePadding": 5}
    return {
        "background": paper,
        "font": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
        "view": {"stroke": None},
        "range": {"category": list(_DARK if dark else _LIGHT), "symbol": list(_SHAPES)},
        "axis": {**axis, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelPadding": 6},
        "legend": {"labelColor": ink, "titleColor": faint, "labelFontSize": 12, "symbolSize": 90},
        "title": {"color": ink, "subtitleColor": faint, "anchor": "start", "frame": "bounds", **sizes},
        "text": {"color": ink, "fontSize": 12},
        "rule": {"color": faint},
        "line": {"color": faint},
        "bar": {"stroke": paper, "strokeWidth": 0.6},
        "style": _STYLES,
    }


def axis(**more: Any) -> alt.Axis:
    """An axis with as many ticks as are readable at the current width."""
    return alt.Axis(tickCount=alt.ExprRef("ceil(width / 90)"), **more)


def of_field(y: alt.Y, field: str) -> alt.Y:
    """The same axis for another field."""
    moved = y.copy()
    moved.shorthand = f"{field}:Q"
    return moved


def rows(values: Iterable[Any]) -> alt.Data:
    """Data for a chart, from mappings or dataclasses, as text: Altair copies and validates lists, which is slow."""
    data = [value if isinstance(value, Mapping) else dataclasses.asdict(value) for value in values]
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return alt.Data(values=text, format=alt.DataFormat(type="json"))  # type: ignore[no-untyped-call]


def joined(many: Iterable[Any], settings: Iterable[Datum]) -> alt.Chart:
    """Join rows to their settings: the field `of` of a row is the number of its setting."""
    numbered: list[Datum] = [{"of": number, **setting} for number, setting in enumerate(settings)]
    fields = [name for name in numbered[0] if name != "of"]
    return alt.Chart(rows(many)).transform_lookup("of", from_=alt.LookupData(rows(numbered), key="of", fields=fields))


def chosen(layer: alt.Chart) -> alt.Chart:
    """Keep only the rows of a layer whose curve is shown."""
    return layer.transform_filter(f"indexof({SHOWN}, datum.line) >= 0")


def colour(lines: Sequence[str]) -> alt.Color:
    """The same colour for the same curve in every chart of a model; the legend lists the shown curves."""
    scale = alt.Scale(domain=list(lines))
    return alt.Color("line:N", scale=scale, legend=_legend(values=alt.ExprRef(SHOWN)), sort=None)


def parts(field: str, names: Sequence[str]) -> alt.Color:
    """The colour of a part of a bar; the legend lists every part."""
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names)), legend=_legend(), sort=None)


def _legend(**more: Any) -> alt.Legend:
    """A legend in rows, in the order of the curves; long names get several lines."""
    columns, names = alt.ExprRef(COLUMNS), wrapped("datum.label", CHARACTERS)
    return alt.Legend(
        title=None,
        orient="top",
        direction="horizontal",
        columns=columns,
        labelExpr=names,
        labelLimit=0,
        symbolLimit=0,
        **more,
    )


def wrapped(text: str, signal: str) -> str:
    """A Vega expression: the text in lines of at most as many characters as the signal says, broken between words."""
    most = f"'{{1,' + {signal} + '}}'"
    pattern = f"'(.' + {most} + ')( +|$)|(.' + {most} + ')'"
    return f"split(trim(replace({text}, regexp({pattern}, 'g'), '$1$3\\n')), '\\n')"


def shape(lines: Sequence[str]) -> alt.Shape:
    """A shape per curve in addition to its colour, for readers who cannot distinguish colours."""
    scale = alt.Scale(domain=list(lines))
    return alt.Shape("line:N", scale=scale, legend=_legend(values=alt.ExprRef(SHOWN)), sort=None)


def dashes() -> list[list[int]]:
    """Dash patterns of lines that are easy to distinguish."""
    return [list(dash) for dash in _DASHES]


def hover(**headings: str) -> list[alt.Tooltip]:
    """Tooltips: every field with its heading."""
    return [alt.Tooltip(f"{field}:N", title=heading) for field, heading in headings.items()]


def named_rows(data: alt.Chart) -> alt.Chart:
    """The name of every row above its bar, because a narrow page has no room beside it."""
    names: alt.Chart = data.transform_calculate(shown_name=wrapped("datum.name", ROW_CHARACTERS)).mark_text(
        style="name", dy=alt.ExprRef(f"2 - {_LINE} * (length(datum.shown_name) - 1)")
    )
    return names.encode(x=alt.value(0), y=row_axis(), text=alt.Text("shown_name:N"))


def row_axis() -> alt.Y:
    """A band per row, in the order of the data."""
    return alt.Y("name:N", axis=None, sort=None)


def layered(*layers: alt.Chart, shown: Sequence[str], height: int | Datum = HEIGHT) -> Datum:
    """Combine layers into one Vega-Lite chart as wide as the page, with one selection of curves.

    The specification is put together here: Altair would copy every layer several times and check it against its
    schema, which takes longer than everything else that a page needs. `tests/report` check it.
    """
    return {
        "$schema": alt.SCHEMA_URL,
        "params": [{"name": name, "value": value} for name, value in _signals(shown).items()],
        "layer": [layer.to_dict(validate=False, context={"top_level": False}) for layer in layers],
        "width": "container",
        "height": height,
    }


def _signals(shown: Sequence[str]) -> Datum:
    """The signals of a picture; the page computes the same for its own width."""
    longest = max(_LEAST_CHARACTERS, *map(len, shown)) if shown else _LEAST_CHARACTERS
    columns = max(1, min(_MOST_COLUMNS, int((WIDTH - _AXIS) / (longest * _CHARACTER + _SYMBOL))))
    characters = int(((WIDTH - _AXIS) / columns - _SYMBOL) / _CHARACTER)
    return {
        SHOWN: list(shown),
        COLUMNS: columns,
        CHARACTERS: characters,
        ROW_CHARACTERS: int((WIDTH - _MARGIN) / _CHARACTER),
    }


_LEAST_CHARACTERS, _MOST_COLUMNS = 24, 4
_CHARACTER, _SYMBOL, _AXIS, _MARGIN, _LINE = 7.5, 30, 76, 32, 14  # pixels

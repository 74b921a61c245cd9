"""Curves of measured values: a mark for each with its interval, hollow where it is doubtful, joined where it is not."""

from collections.abc import Iterator, Sequence

import altair as alt

from paceline.measure.stats import Figure
from paceline.report import charts

LEGEND = (
    "Bars are 95 % intervals. A hollow mark is uncertain: it has no interval (fixed timing), lies above the ideal, or "
    "the host limited it. What is not known is not drawn. Thin lines join neighbours that are both certain."
)
"""What marks, bars and lines mean."""


def is_certain(value: Figure) -> bool:
    """Whether a value has an interval that says something, and is a possible figure of the devices."""
    return value.spread is not None and value.known and not value.marks


def columns(name: str, value: Figure | None) -> charts.Datum:
    """A figure as columns of a row of chart data; none where it is not known."""
    if value is None or not value.known:
        return {}
    certain = is_certain(value)
    low, high = (value.low, value.high) if certain else (None, None)
    return {name: value.value, f"{name}_low": low, f"{name}_high": high, f"{name}_certain": certain}


def figure(data: alt.Chart, name: str, **more: str) -> alt.Chart:
    """The rows that have this figure, with it as `value`, `low`, `high` and `certain`; `more` are expressions."""
    ends = {end: f"datum.{name}_{end}" for end in ("low", "high", "certain")}
    rows: alt.Chart = data.transform_filter(f"isValid(datum.{name})")
    return rows.transform_calculate(value=f"datum.{name}", **ends, **more)


def curves(
    data: alt.Chart, lines: Sequence[str], x: alt.X, y: alt.Y, *, by: Sequence[str], tooltip: Sequence[alt.Tooltip]
) -> Iterator[alt.Chart]:
    """Lines, intervals and marks of what `figure` returns; `by` are the columns that tell curves apart.

    `x` is a column of the data, along which neighbours are joined; equal ones are in order of workers.
    """
    along, colour = str(x.shorthand).partition(":")[0], charts.colour(lines)
    neighbour = {f"next_{field}": f"lead({field})" for field in (along, "value", "certain")}
    order = [alt.SortField(along), alt.SortField("workers")]
    pairs = data.transform_window(sort=order, groupby=list(by), **neighbour)  # type: ignore[arg-type]  # see Altair
    pairs = pairs.transform_filter("datum.certain && datum.next_certain")
    yield pairs.mark_rule(strokeWidth=1.2, clip=True).encode(
        x=x, x2=alt.X2(f"next_{along}"), y=y, y2=alt.Y2("next_value"), color=colour
    )
    bars = data.transform_filter("isValid(datum.low) && isValid(datum.high)")
    yield bars.mark_rule(clip=True, style="interval").encode(
        x=x, y=charts.of_field(y, "low"), y2=alt.Y2("high"), color=colour
    )
    inside = alt.FillOpacityValue(0, condition=[{"test": "datum.certain", "value": 1}])
    outline = alt.Stroke("line:N", scale=alt.Scale(domain=list(lines)), legend=None, sort=None)
    yield data.mark_point(filled=True, size=80, opacity=1, strokeWidth=1.6).encode(
        x=x, y=y, color=colour, stroke=outline, fillOpacity=inside, shape=charts.shape(lines), tooltip=list(tooltip)
    )

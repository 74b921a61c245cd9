"""Show the gap to ideal as components of a step that add up to it."""

from collections.abc import Iterator, Sequence

import altair as alt

from paceline.breakdown.gap import LABELS, Gap
from paceline.numbers import count, ms
from paceline.report import charts
from paceline.report.results import Result, Results
from paceline.report.scaling import conditions, share
from paceline.report.section import Chart, Section
from paceline.report.shown import fastest, lines_of, shown_first
from paceline.report.tables import PageTable, TableCell, number, word

_HOVER = [
    *charts.hover(name="setting", component="part of the gap", milliseconds="time per step"),
    alt.Tooltip("share:Q", title="share of the step", format=".1%"),
    *charts.hover(of_gap="share of the gap", efficiency="efficiency (95 %)", conditions="with"),
]


def gap_to_ideal(results: Results) -> Section | None:
    """Stacked bars with a table; None where nothing was compared with one worker."""
    compared = [row for row in results.rows if row.case.baseline is not None]
    divided = [(row, gap) for row in compared if (gap := row.gap) is not None]
    if not compared:
        return None
    words = [
        "Each phase of a step is compared with the same phase of one worker alone; the differences add up to the gap. "
        "A part to the left of zero took less time than ideal."
    ]
    if len(divided) < len(compared):
        words.append(f"No breakdown given for {_within_noise(compared)}: the gap is within noise.")
    if not divided:
        return Section(name="gap", title="No gap to ideal beyond noise", words=(words[-1],))
    chart = Chart(
        name="gap",
        title=_title(divided),
        subtitle=f"time beyond the ideal step, as a share of a step · {conditions([row for row, _ in divided])}",
        specification=_chart(results, divided),
    )
    title = "Where the time goes: the gap to ideal"
    return Section(name="gap", title=title, words=tuple(words), charts=(chart,), tables=(_table(divided),))


def _within_noise(compared: Sequence[Result]) -> str:
    left = [row.label for row in compared if row.gap is None]
    return left[0] if len(left) == 1 else f"{count(len(left), 'setting')} ({left[0]} and others)"


def _title(divided: Sequence[tuple[Result, Gap]]) -> str:
    best = fastest([row for row, _ in divided])
    gap = next(gap for row, gap in divided if row is best)
    name, seconds = max(gap.components.items(), key=lambda item: item[1])
    return f"{best.label}: a step takes {ms(gap.seconds)} more than ideal, {ms(seconds)} of it {LABELS[name]}"


def _chart(results: Results, divided: Sequence[tuple[Result, Gap]]) -> charts.Datum:
    data = charts.chosen(charts.joined(_bars(divided), _names(divided)))
    x = alt.X("share:Q", title="share of a step", axis=charts.axis(format=".0%"), stack="zero")
    bars = data.mark_bar(size=charts.BAR, yOffset=charts.BELOW_NAME).encode(
        x=x,
        y=charts.row_axis(),
        color=charts.parts("component", list(LABELS.values())),
        order=alt.Order("order:Q"),
        tooltip=_HOVER,
    )
    names = charts.named_rows(data.transform_filter("datum.order == 0"))
    shown = shown_first(results, lines_of(row for row, _ in divided))
    return charts.layered(bars, names, shown=shown, height=charts.BAND)


def _bars(divided: Sequence[tuple[Result, Gap]]) -> Iterator[charts.Datum]:
    for of, (_, gap) in enumerate(divided):
        shares = gap.shares_percent
        for order, (name, seconds) in enumerate(gap.components.items()):
            yield {
                "of": of,
                "order": order,
                "component": LABELS[name],
                "share": round(seconds / gap.step_seconds, 6),
                "milliseconds": ms(seconds),
                "of_gap": f"{shares[name]} %",
            }


def _names(divided: Sequence[tuple[Result, Gap]]) -> Iterator[charts.Datum]:
    for row, gap in divided:
        name = f"{row.label}: {ms(gap.seconds)} of {ms(gap.step_seconds)} beyond ideal"
        efficiency = share(row.scaling.efficiency).text
        yield {"line": row.line, "name": name, "efficiency": efficiency, "conditions": row.conditions}


def _table(divided: Sequence[tuple[Result, Gap]]) -> PageTable:
    rows = tuple(
        (
            word(row.line),
            number(row.workers),
            *(_ms(seconds) for seconds in (gap.step_seconds, gap.ideal_seconds, gap.seconds)),
            *(_ms(gap.components[name]) for name in LABELS),
        )
        for row, gap in divided
    )
    headings = ("setting", "workers", "step", "ideal step", "gap", *LABELS.values())
    title = f"Milliseconds per step; the parts add up to the gap · {conditions([row for row, _ in divided])}"
    lines = tuple(row.line for row, _ in divided)
    return PageTable(name="gap", title=title, headings=headings, rows=rows, lines=lines)


def _ms(seconds: float) -> TableCell:
    return number(seconds * 1e3, "{:.2f}".format)

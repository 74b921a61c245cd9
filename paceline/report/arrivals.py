"""Who holds the others up: every worker's arrivals at the exchange, as strips."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import Worker
from paceline.measure.series import Series, WorkerSeries
from paceline.numbers import ms, percent
from paceline.report import charts
from paceline.report.results import Result, Results
from paceline.report.scaling import conditions
from paceline.report.section import Chart, Section
from paceline.report.shown import shown_first
from paceline.report.tables import PageTable, number, word

_MOST_SETTINGS = 6
_MOST_WORKERS = 12
_MOST_STEPS = 120
_KINDS = ("in its turn", "late again and again")
_CUT = 0.02
"""Share of steps at either end of the axis that may lie outside it."""


def arrivals(results: Results) -> Section | None:
    """Strips of the settings in which workers wait for one another; None where none do."""
    waiting = [(row, row.case) for row in results.rows if _latest(row.case) is not None]
    if not waiting:
        return None
    shown = shown_first(results)
    ranked = sorted(waiting, key=lambda item: (item[0].line not in shown, -(_latest(item[1]) or 0.0)))
    drawn = ranked[:_MOST_SETTINGS]
    words = [
        "Each mark is a step: how much later than the mean of the others a worker arrived at the exchange; the diamond "
        "is their median. Everybody waits for the last; a worker whose strip lies to the right holds the others up."
    ]
    if len(drawn) < len(waiting):
        words.append(f"Drawn are {len(drawn)} of {len(waiting)} settings, those with the latest workers.")
    strips = [row for result, case in drawn for row in _strips(result, case)]
    chart = Chart(
        name="arrivals",
        title=_title(drawn),
        subtitle=f"milliseconds after the mean of the others · {conditions([row for row, _ in drawn])}",
        definition=_chart(results, strips),
    )
    table = _table(waiting)
    return Section(name="arrivals", title="Who waits for whom", words=tuple(words), charts=(chart,), tables=(table,))


def _latest(case: Comparison) -> float | None:
    """By how much the latest worker is late; None where nobody waits for anybody."""
    return max((w.late_seconds for w in case.setting.workers if w.late_seconds is not None), default=None)


def _title(drawn: Sequence[tuple[Result, Comparison]]) -> str:
    for row, case in drawn:
        for slow in case.slow[:1]:
            often = percent(slow.share)
            return f"{row.label}: worker {slow.rank} is late in {often} of the steps, by {ms(slow.seconds)}"
    return "No worker is late again and again"


def _strips(result: Result, case: Comparison) -> Iterator[dict[str, Any]]:
    """A sample of the timed steps of all repeats, and their median; without series the record's."""
    slow = {lateness.rank for lateness in case.slow}
    late = [_late(run.series, run.timed) for run in result.runs if run.series]
    steps = np.concatenate(late, axis=1) if late else None
    latest = sorted(case.setting.workers, key=lambda w: -(w.late_seconds or 0.0))[:_MOST_WORKERS]
    for worker in sorted(latest, key=lambda w: w.rank):
        common = {"line": result.line, "name": _name(result, worker), "kind": _KINDS[worker.rank in slow]}
        own = steps[worker.rank] if steps is not None else np.empty(0)
        median = float(np.median(own)) if len(own) else worker.late_seconds
        if median is not None:
            yield {**common, "late": round(median * 1e3, 4), "median": True, "step": "median"}
        for step in _spread(len(own)):
            yield {**common, "late": round(float(own[step]) * 1e3, 4), "median": False, "step": step}


def _late(series: Sequence[WorkerSeries], timed: slice) -> Series:
    """Per worker and timed step: its arrival less the mean arrival of the others."""
    there = min(len(worker.arrival) for worker in series)
    arrived = np.array([worker.arrival[:there][timed] for worker in series])
    others = (arrived.sum(axis=0) - arrived) / (len(series) - 1)
    return np.asarray(arrived - others)


def _spread(steps: int) -> list[int]:
    return sorted({int(step) for step in np.linspace(0, steps - 1, min(steps, _MOST_STEPS))}) if steps else []


def _name(result: Result, worker: Worker) -> str:
    last = "" if worker.last_share is None else f": last in {percent(worker.last_share)} of steps"
    return f"{result.label} · {worker.name}{last}"


def _chart(results: Results, strips: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    low, high = np.quantile([row["late"] for row in strips], [_CUT, 1 - _CUT])
    room = 0.05 * (high - low) + 1e-3
    x = alt.X(
        "late:Q",
        title="ms after the mean of the others",
        scale=alt.Scale(domain=[min(0.0, low) - room, max(0.0, high) + room], nice=False),
        axis=charts.axis(),
    )
    data = charts.chosen(alt.Chart(charts.rows(strips)))
    colour = charts.parts("kind", [kind for kind in _KINDS if any(row["kind"] == kind for row in strips)])
    told = [*charts.hover(name="worker", step="timed step"), alt.Tooltip("late:Q", title="ms late", format="+.3f")]
    zero = alt.Chart(charts.rows([{"late": 0}])).mark_rule().encode(x=x)
    ticks = data.transform_filter("!datum.median").mark_tick(
        clip=True, height=charts.BAR, thickness=1.5, opacity=1, fillOpacity=0.45, yOffset=charts.BELOW_NAME
    )
    medians = data.transform_filter("datum.median")
    marks = medians.mark_point(filled=True, size=70, shape="diamond", opacity=1, yOffset=charts.BELOW_NAME)
    return charts.layered(
        zero,
        ticks.encode(x=x, y=charts.row_axis(), color=colour, tooltip=told),
        marks.encode(x=x, y=charts.row_axis(), color=colour, tooltip=told),
        charts.named_rows(medians),
        shown=shown_first(results, tuple(dict.fromkeys(row["line"] for row in strips))),
        height=alt.Step(charts.BAND),
    )


def _table(waiting: Sequence[tuple[Result, Comparison]]) -> PageTable:
    """A row per setting, with its latest worker."""
    rows = []
    for result, case in waiting:
        workers = case.setting.workers
        latest = max(workers, key=lambda w: w.late_seconds or 0.0)
        rows.append(
            (
                *(word(result.line), number(result.workers), word(latest.name)),
                number(_scaled(latest.late_seconds, 1e3), "{:+.2f}".format),
                number(_scaled(latest.last_share, 100), "{:.0f}".format),
                number(case.setting.phases.wait * 1e3, "{:.2f}".format),
                number(max(w.phases.wait for w in workers) * 1e3, "{:.2f}".format),
            )
        )
    headings = (
        *("setting", "workers", "latest worker", "late, ms", "last, % of steps"),
        *("mean wait, ms a step", "longest wait, ms a step"),
    )
    title = f"Who comes last, and what it costs the others · {conditions([row for row, _ in waiting])}"
    lines = tuple(row.line for row, _ in waiting)
    return PageTable(name="arrivals", title=title, headings=headings, rows=tuple(rows), lines=lines)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor

"""Show stragglers: every worker's arrivals at the exchange, as strips."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
_KINDS = ("sometimes late", "straggler")
_CUT = 0.02
"""Share of steps at either end of the axis that may lie outside it."""


@dataclass(frozen=True)
class _Arrival:
    """One mark of a strip: a step's arrival, or the median of all."""

    line: str
    name: str
    kind: str
    late: float
    """Milliseconds after the mean of the others."""

    median: bool
    step: int | str


def arrivals(results: Results) -> Section | None:
    """Draw the settings in which workers wait for one another; None where none do."""
    waiting = [(row, row.case) for row in results.rows if _latest(row.case) is not None]
    if not waiting:
        return None
    shown = shown_first(results)
    ranked = sorted(waiting, key=lambda item: (item[0].line not in shown, -(_latest(item[1]) or 0.0)))
    drawn = ranked[:_MOST_SETTINGS]
    words = [
        "Each mark is one step: how much later than the mean of the others a worker arrived at the exchange. The "
        "diamond is the median. All workers wait for the last one; a strip to the right of the others is a straggler."
    ]
    if len(drawn) < len(waiting):
        words.append(f"The chart shows {len(drawn)} of {len(waiting)} settings, those with the latest workers.")
    strips = [mark for result, case in drawn for mark in _strips(result, case)]
    chart = Chart(
        name="arrivals",
        title=_title(drawn),
        subtitle=f"milliseconds after the mean of the others · {conditions([row for row, _ in drawn])}",
        specification=_chart(results, strips),
    )
    table = _table(waiting)
    return Section(
        name="arrivals", title="Waiting: who arrives last", words=tuple(words), charts=(chart,), tables=(table,)
    )


def _latest(case: Comparison) -> float | None:
    """How late the latest worker is, in seconds; None where workers do not wait for one another."""
    return max((w.late_seconds for w in case.setting.workers if w.late_seconds is not None), default=None)


def _title(drawn: Sequence[tuple[Result, Comparison]]) -> str:
    for row, case in drawn:
        for slow in case.slow[:1]:
            often = percent(slow.share)
            return f"{row.label}: worker {slow.rank} is late in {often} of the steps, by {ms(slow.seconds)}"
    return "No straggler: no worker is late in most steps"


def _strips(result: Result, case: Comparison) -> Iterator[_Arrival]:
    """A sample of the timed steps of all repeats, and their median; without series, the record's median alone."""
    slow = {lateness.rank for lateness in case.slow}
    late = [_late(run.series, run.timed) for run in result.runs if run.series]
    steps = np.concatenate(late, axis=1) if late else None
    latest = sorted(case.setting.workers, key=lambda w: -(w.late_seconds or 0.0))[:_MOST_WORKERS]
    for worker in sorted(latest, key=lambda w: w.rank):
        line, name, kind = result.line, _name(result, worker), _KINDS[worker.rank in slow]
        own = steps[worker.rank] if steps is not None else np.empty(0)
        median = float(np.median(own)) if len(own) else worker.late_seconds
        if median is not None:
            yield _Arrival(line, name, kind, round(median * 1e3, 4), median=True, step="median")
        for step in _spread(len(own)):
            yield _Arrival(line, name, kind, round(float(own[step]) * 1e3, 4), median=False, step=step)


def _late(series: Sequence[WorkerSeries], timed: slice) -> Series:
    """Per worker and timed step: its arrival minus the mean arrival of the others."""
    steps = min(len(worker.arrival) for worker in series)
    arrived = np.array([worker.arrival[:steps][timed] for worker in series])
    others = (arrived.sum(axis=0) - arrived) / (len(series) - 1)
    return np.asarray(arrived - others)


def _spread(steps: int) -> list[int]:
    return sorted({int(step) for step in np.linspace(0, steps - 1, min(steps, _MOST_STEPS))}) if steps else []


def _name(result: Result, worker: Worker) -> str:
    last = "" if worker.last_share is None else f": last in {percent(worker.last_share)} of steps"
    return f"{result.label} · {worker.name}{last}"


def _chart(results: Results, strips: Sequence[_Arrival]) -> charts.Datum:
    low, high = np.quantile([mark.late for mark in strips], [_CUT, 1 - _CUT])
    room = 0.05 * (high - low) + 1e-3
    x = alt.X(
        "late:Q",
        title="ms after the mean of the others",
        scale=alt.Scale(domain=[min(0.0, low) - room, max(0.0, high) + room], nice=False),
        axis=charts.axis(),
    )
    data = charts.chosen(alt.Chart(charts.rows(strips)))
    colour = charts.parts("kind", [kind for kind in _KINDS if any(mark.kind == kind for mark in strips)])
    tooltip = [*charts.hover(name="worker", step="timed step"), alt.Tooltip("late:Q", title="ms late", format="+.3f")]
    zero = alt.Chart(charts.rows([{"late": 0}])).mark_rule().encode(x=x)
    ticks = data.transform_filter("!datum.median").mark_tick(
        clip=True, height=charts.BAR, thickness=1.5, opacity=1, fillOpacity=0.45, yOffset=charts.BELOW_NAME
    )
    medians = data.transform_filter("datum.median")
    marks = medians.mark_point(filled=True, size=70, shape="diamond", opacity=1, yOffset=charts.BELOW_NAME)
    return charts.layered(
        zero,
        ticks.encode(x=x, y=charts.row_axis(), color=colour, tooltip=tooltip),
        marks.encode(x=x, y=charts.row_axis(), color=colour, tooltip=tooltip),
        charts.named_rows(medians),
        shown=shown_first(results, tuple(dict.fromkeys(mark.line for mark in strips))),
        height=charts.BAND,
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
        *("mean wait, ms per step", "longest wait, ms per step"),
    )
    title = (
        f"The latest worker of each setting, and how long the others wait · {conditions([row for row, _ in waiting])}"
    )
    lines = tuple(row.line for row, _ in waiting)
    return PageTable(name="arrivals", title=title, headings=headings, rows=tuple(rows), lines=lines)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor

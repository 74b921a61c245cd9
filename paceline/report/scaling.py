"""Show throughput, speed-up and efficiency against the number of workers, with the ideal."""

from collections.abc import Iterable, Iterator, Sequence

import altair as alt

from paceline.measure.stats import Figure
from paceline.numbers import count, rate
from paceline.report import charts, curves
from paceline.report.results import Result, Results
from paceline.report.section import Chart, Section
from paceline.report.shown import fastest, lines_of, shown_first
from paceline.report.tables import TableCell, interval, missing
from paceline.studies.columns import NOTHING
from paceline.studies.table import figure

_ROOM = 1.12
"""The axis reaches this many times the largest value; wider intervals are cut there, and tooltips give them in full."""

_BESIDE = 0.12
"""Margin on both sides, as a share of the range of workers."""

_APART = 0.012
"""Distance between two curves, as a share of the range of workers; less where there are many."""

_FEW = 4

_TICKS = 6
_HOVER = {
    "line": "setting",
    "workers": "workers",
    "rate": "throughput (95 %)",
    "speedup_text": "speed-up (95 %)",
    "efficiency_text": "efficiency (95 %)",
    "ideal_text": "ideal",
    "conditions": "with",
    "repeats": "repeats",
}


def times(value: Figure | None, missing: str = NOTHING) -> TableCell:
    """A speed-up with its interval, as in `1.94× (1.90–1.98)`."""
    return interval(value, "{:.2f}".format, "×", missing)


def share(value: Figure | None, missing: str = NOTHING) -> TableCell:
    """An efficiency with its interval, as in `97 % (95–99)`."""
    return interval(value, lambda part: f"{part * 100:.0f}", " %", missing)


def throughput(results: Results) -> Section:
    """Units per second against workers, with intervals and the ideal line; a chart per model."""
    drawn = tuple(_throughput(results, panel) for panel in results.panels)
    words = (
        "The dotted grey line is the ideal: the rate of one worker alone × devices. Intervals are over the repeats, or "
        f"within the run where there is one. {curves.LEGEND}",
    )
    return Section(name="throughput", title="Throughput against workers", words=words, charts=drawn)


def speedup_and_efficiency(results: Results) -> Section | None:
    """Speed-up and efficiency against workers; None where nothing was compared with one worker."""
    panels = [panel for panel in results.panels if any(r.scaling.speedup for r in results.of_panel(panel))]
    if not panels:
        return None
    drawn = tuple(chart for panel in panels for chart in (_speedup(results, panel), _efficiency(results, panel)))
    words = (
        "Speed-up is relative to one worker alone on one device (strategy `independent`). Efficiency is speed-up ÷ "
        "devices; a device that only hosts a server counts as a device.",
    )
    return Section(name="speed-up", title="Speed-up and efficiency", words=words, charts=drawn)


def _throughput(results: Results, panel: str) -> Chart:
    rows = results.of_panel(panel)
    unit = rows[0].unit
    ends = [r.scaling.throughput.value for r in rows if r.scaling.throughput.known]
    ends += [r.scaling.ideal for r in rows if r.scaling.ideal]
    y = alt.Y("value:Q", title=unit, scale=_scale(max(ends, default=1.0)), axis=alt.Axis(tickCount=_TICKS))
    layers = [*_ideals(rows, y, "ideal"), *_points(rows, y, "throughput")]
    lines = lines_of(rows)
    definition = charts.layered(*layers, shown=shown_first(results, lines))
    return Chart(
        name=_name("throughput", panel, results),
        title=_best_title(rows, panel, results),
        subtitle=f"{unit} against workers · {conditions(rows)}{_hollow(r.scaling.throughput for r in rows)}",
        specification=definition,
        lines=lines,
    )


def _speedup(results: Results, panel: str) -> Chart:
    rows = [r for r in results.of_panel(panel) if r.scaling.speedup]
    highest = max(max(r.scaling.speedup.value for r in rows if r.scaling.speedup), max(r.record.devices for r in rows))
    y = alt.Y("value:Q", title="speed-up over one worker", scale=_scale(highest), axis=alt.Axis(tickCount=_TICKS))
    layers = [*_ideals(rows, y, "devices"), *_points(rows, y, "speedup")]
    return Chart(
        name=_name("speed-up", panel, results),
        title=_titled("Speed-up over one worker", panel, results),
        subtitle=f"{conditions(rows)}{_hollow(r.scaling.speedup for r in rows)}",
        specification=charts.layered(*layers, shown=shown_first(results, lines_of(rows))),
        lines=lines_of(rows),
    )


def _efficiency(results: Results, panel: str) -> Chart:
    rows = [r for r in results.of_panel(panel) if r.scaling.efficiency]
    highest = max(1.0, *(r.scaling.efficiency.value for r in rows if r.scaling.efficiency))
    y = alt.Y("value:Q", title="share of ideal", scale=_scale(highest), axis=alt.Axis(format=".0%", tickCount=_TICKS))
    whole = alt.Chart(charts.rows([{"value": 1.0}])).mark_rule(style="ideal").encode(y=y)
    lines = lines_of(rows)
    return Chart(
        name=_name("efficiency", panel, results),
        title=_titled("Efficiency: share of the ideal throughput", panel, results),
        subtitle=f"{conditions(rows)}{_hollow(r.scaling.efficiency for r in rows)}",
        specification=charts.layered(whole, *_points(rows, y, "efficiency"), shown=shown_first(results, lines)),
        lines=lines,
    )


def _hollow(values: Iterable[Figure | None]) -> str:
    """What hollow marks mean, where the chart has any."""
    return " · hollow: uncertain" if any(v is not None and v.known and not curves.is_certain(v) for v in values) else ""


def _points(rows: Sequence[Result], y: alt.Y, name: str) -> Iterator[alt.Chart]:
    """A curve of every line; curves are shifted a little so that no interval covers another."""
    shift = (
        f"{_APART * _span(rows):.6g} * (indexof({charts.SHOWN}, datum.line) - (length({charts.SHOWN}) - 1) / 2)"
        f" / max(1, length({charts.SHOWN}) / {_FEW})"
    )
    data = curves.figure(charts.chosen(alt.Chart(charts.rows(map(point, rows)))), name, at=f"datum.workers + {shift}")
    lines = lines_of(rows)
    yield from curves.curves(data, lines, workers_axis(rows, "at"), y, by=["line"], tooltip=charts.hover(**_HOVER))


def _ideals(rows: Sequence[Result], y: alt.Y, name: str) -> Iterator[alt.Chart]:
    """The ideal of the devices that compute, with one label; tooltips give it with devices that only host servers."""
    lines = charts.chosen(alt.Chart(charts.rows(_ideal_points(rows)))).transform_calculate(value=f"datum.{name}")
    x = workers_axis(rows, "workers")
    highest = lines.transform_filter("datum.workers > 1").transform_aggregate(end="max(workers)", top="max(value)")
    yield lines.mark_line(style="ideal").encode(x=x, y=y, detail=alt.Detail("line:N"))
    yield highest.mark_text(style="remark", dx=-6, dy=-8, text="ideal").encode(
        x=workers_axis(rows, "end"), y=charts.of_field(y, "top")
    )


def _ideal_points(rows: Sequence[Result]) -> Iterator[charts.Datum]:
    """Points of every ideal line: one worker's rate × devices, starting with one worker."""
    by_line: dict[str, dict[int, tuple[float, float]]] = {}
    for result in rows:
        if result.scaling.ideal is None:
            continue
        alone = result.scaling.ideal / result.record.devices
        computing = len({worker.device for worker in result.record.per_worker})
        along = by_line.setdefault(result.line, {1: (1, alone)})
        along[result.workers] = (computing, computing * alone)
    for line, along in by_line.items():
        for workers, (devices, ideal) in along.items():
            yield {"line": line, "workers": workers, "devices": devices, "ideal": ideal}


def point(result: Result) -> charts.Datum:
    """A setting as a row of chart data: figures with their intervals, and their texts."""
    row, unit = result.scaling, result.unit
    figures = {"throughput": row.throughput, "speedup": row.speedup, "efficiency": row.efficiency}
    values: charts.Datum = {"line": result.line, "workers": result.workers}
    for name, value in figures.items():
        values |= curves.columns(name, value)
    devices = count(result.record.devices, "device")
    return {
        **values,
        "rate": f"{figure(row.throughput, rate)} {unit}",
        "speedup_text": times(row.speedup, missing(row)).text,
        "efficiency_text": share(row.efficiency, missing(row)).text,
        "ideal_text": f"{rate(row.ideal)} {unit} on {devices}" if row.ideal else "not known",
        "conditions": result.conditions,
        "repeats": len(result.runs),
    }


def workers_axis(rows: Sequence[Result], field: str) -> alt.X:
    """The axis of workers, with a tick at every count that was run."""
    numbers = sorted({result.workers for result in rows})
    pad = _BESIDE * _span(rows)
    scale = alt.Scale(domain=[min(1, numbers[0]) - pad, numbers[-1] + pad], nice=False, zero=False)
    axis = alt.Axis(values=numbers, format="d", grid=False, labelOverlap=True)
    return alt.X(f"{field}:Q", title="workers", scale=scale, axis=axis)


def _span(rows: Sequence[Result]) -> int:
    return max(1, max(result.workers for result in rows) - 1)


def conditions(rows: Sequence[Result]) -> str:
    """Weak or strong scaling, batch and learning rate of these settings in a few words."""
    several = dict.fromkeys(r.scaling.scaling for r in rows if r.scaling.scaling)
    scaling = f"{' and '.join(several)} scaling" if several else "not compared with one worker"
    parts = [scaling]
    for name, values in (
        ("batch {} per worker", {r.record.batch for r in rows}),
        ("lr {}", {r.record.learning.lr for r in rows}),
    ):
        written = sorted(f"{v:g}" for v in values)
        if len(written) == 1:
            parts.append(name.format(written[0]))
        elif written:
            parts.append(name.format(f"{written[0]} to {written[-1]}" if len(written) > 3 else " and ".join(written)))
    return ", ".join(parts)


def _best_title(rows: Sequence[Result], panel: str, results: Results) -> str:
    """A title that says what the fastest setting reaches."""
    best = fastest(rows)
    reached, efficiency = best.scaling.throughput, best.scaling.efficiency
    if not reached.known:
        return _titled(f"{best.label}: throughput not known", panel, results)
    title = f"{best.label}: {rate(reached.value)} {best.unit}"
    found = reached.marks
    if efficiency is not None and best.workers > 1:
        title += f", {efficiency.value * 100:.0f} % of ideal"
        found = efficiency.marks
    title += f" ({', '.join(found)})" if found else ""
    return _titled(title, panel, results)


def _titled(title: str, panel: str, results: Results) -> str:
    return title if len(results.panels) == 1 or panel in title else f"{panel}: {title}"


def _name(name: str, panel: str, results: Results) -> str:
    return name if len(results.panels) == 1 else f"{name}-{results.panels.index(panel) + 1}"


def _scale(highest: float) -> alt.Scale:
    return alt.Scale(domain=[0, highest * _ROOM], nice=False)

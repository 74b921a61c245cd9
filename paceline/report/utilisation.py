"""Show how busy the devices were, and with what."""

import statistics
from collections.abc import Iterator, Sequence

import altair as alt

from paceline.report import charts
from paceline.report.results import Result, Results, measured
from paceline.report.scaling import conditions
from paceline.report.section import Chart, Section
from paceline.report.shown import fastest, lines_of, shown_first
from paceline.report.tables import PageTable, TableCell, number, word
from paceline.studies.columns import COLUMNS

_WORKERS, _SERVERS, _OTHERS, _ANYONE = "this run's workers", "its servers", "other processes", "any process"
_STOLEN = "other virtual machines"
_PARTS = (_WORKERS, _SERVERS, _OTHERS, _STOLEN, _ANYONE)


def utilisation(results: Results) -> Section | None:
    """Stacked bars, one per setting; None where nothing was measured."""
    busy = [(row, parts) for row in results.rows if (parts := _busy(row))]
    if not busy:
        return None
    rows = [row for row, _ in busy]
    words = (
        "Means over the devices and the repeats; the rest of the bar is idle time. GPUs do not report which process "
        "uses them.",
    )
    chart = Chart(
        name="utilisation",
        title=_title(busy),
        subtitle=f"share of time, mean over the devices · {conditions(rows)}",
        specification=_chart(results, busy),
    )
    return Section(
        name="utilisation", title="How busy the devices were", words=words, charts=(chart,), tables=(_table(busy),)
    )


def _busy(row: Result) -> dict[str, float]:
    """Per cent of the devices' time, by who used it."""
    devices = [device for run in row.runs for device in run.record.utilisation if device.busy_percent is not None]
    if not devices:
        return {}
    busy = statistics.fmean(device.busy_percent or 0.0 for device in devices)
    own = [device.workers_percent for device in devices if device.workers_percent is not None]
    if len(own) < len(devices):
        return {_ANYONE: busy}
    workers = min(busy, statistics.fmean(own))
    served = [
        server.utilisation_percent
        for run in row.runs
        for server in run.record.servers
        if server.utilisation_percent is not None
    ]
    servers = min(busy - workers, sum(served) / len(devices))
    rest = busy - workers - servers
    stolen = min(rest, statistics.fmean(device.stolen_percent or 0.0 for device in devices))
    return {_WORKERS: workers, _SERVERS: servers, _OTHERS: rest - stolen, _STOLEN: stolen}


def _title(busy: Sequence[tuple[Result, dict[str, float]]]) -> str:
    best = fastest([row for row, _ in busy])
    parts = next(parts for row, parts in busy if row is best)
    who, share = ("its workers", parts[_WORKERS]) if _WORKERS in parts else ("processes", max(parts.values()))
    return f"{best.label}: {who} kept the devices busy for {share:.0f} % of the time"


def _chart(results: Results, busy: Sequence[tuple[Result, dict[str, float]]]) -> charts.Datum:
    data = charts.chosen(charts.joined(_bars(busy), (_name(row) for row, _ in busy)))
    x = alt.X("share:Q", title="share of time", axis=charts.axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    bars = data.mark_bar(size=charts.BAR, yOffset=charts.BELOW_NAME, clip=True).encode(
        x=x,
        y=charts.row_axis(),
        color=charts.parts("part", _shown(busy)),
        order=alt.Order("order:Q"),
        tooltip=[
            *charts.hover(name="setting", part="busy with"),
            alt.Tooltip("share:Q", title="share of time", format=".1%"),
            *charts.hover(conditions="with"),
        ],
    )
    names = charts.named_rows(data.transform_filter("datum.order == 0"))
    shown = shown_first(results, lines_of(row for row, _ in busy))
    return charts.layered(bars, names, shown=shown, height=charts.BAND)


def _bars(busy: Sequence[tuple[Result, dict[str, float]]]) -> Iterator[charts.Datum]:
    for of, (_, parts) in enumerate(busy):
        for order, (part, value) in enumerate(parts.items()):
            yield {"of": of, "part": part, "order": order, "share": round(value / 100, 6)}


def _name(row: Result) -> dict[str, str]:
    return {"line": row.line, "name": row.label, "conditions": row.conditions}


def _shown(busy: Sequence[tuple[Result, dict[str, float]]]) -> list[str]:
    return [part for part in _PARTS if any(parts.get(part) for _, parts in busy)]


def _table(busy: Sequence[tuple[Result, dict[str, float]]]) -> PageTable:
    shown = _shown(busy)
    rows = tuple(
        (
            *(word(row.line), number(row.workers), number(row.record.devices)),
            *(number(parts.get(part), "{:.0f}".format) for part in shown),
            _memory(row),
        )
        for row, parts in busy
    )
    title = f"Per cent of the devices' time; memory of the largest worker · {conditions([row for row, _ in busy])}"
    headings = ("setting", "workers", "devices", *shown, "memory")
    lines = tuple(row.line for row, _ in busy)
    return PageTable(name="utilisation", title=title, headings=headings, rows=rows, lines=lines)


def _memory(row: Result) -> TableCell:
    value = measured(COLUMNS["memory"], row)
    return TableCell(COLUMNS["memory"].written(value), value)

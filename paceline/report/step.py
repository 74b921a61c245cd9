"""One step as it happened: phases of every worker, and the exchange behind backward and after it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from paceline.breakdown.trace import trace
from paceline.measure.runs import StoredRun
from paceline.measure.series import WorkerSeries
from paceline.numbers import count, ms
from paceline.record_parts import PHASES
from paceline.report import charts
from paceline.report.results import Result, Results
from paceline.report.section import Chart, Section
from paceline.report.shown import fastest, shown_first
from paceline.traffic.catalogue import exchanges

_MOST_SETTINGS = 4
_MOST_WORKERS = 8
_HIDDEN, _EXPOSED = "hidden exchange", "exposed exchange"
_PARTS = ("forward", _EXPOSED, "backward", "wait", "input", _HIDDEN, "other", "update")
"""In the order of the colours: the exchange, hidden and exposed, must stand out from what it hides behind."""

_LANE = 30


def step(results: Results) -> Section | None:
    """A timeline for a few settings; None where no run has its series."""
    drawn = [(row, slices) for row in _chosen(results) if (slices := _typical_step(row))]
    if not drawn:
        return None
    words = (
        "The timed step whose length is nearest to the median. Above, the phases of a worker, one after the other; "
        "below them the exchange of its buckets, hidden as long as its backward goes on, and exposed after it.",
        *(text for row, _ in drawn for text in _overlap(row)),
    )
    ends: dict[str, float] = {}
    for row, slices in drawn:
        ends[row.panel] = max(ends.get(row.panel, 0.0), *(s["to"] for s in slices))
    found = tuple(_chart(results, row, slices, ends[row.panel]) for row, slices in drawn)
    return Section(name="step", title="One step, worker by worker", words=words, charts=found)


def _chosen(results: Results) -> list[Result]:
    """The fastest first, then of every other strategy that exchanges something its largest setting."""
    best = fastest(results.rows)
    largest: dict[str, Result] = {best.record.spec.strategy: best}
    for row in sorted(results.rows, key=lambda r: -r.workers):
        if row.workers > 1 and exchanges(row.record.spec.strategy):
            largest.setdefault(row.record.spec.strategy, row)
    return list(largest.values())[:_MOST_SETTINGS]


def _overlap(row: Result) -> Iterator[str]:
    setting = row.case.setting
    hidden = setting.hidden_seconds
    if hidden is not None:
        yield (
            f"{row.label}: on average {ms(hidden)} of exchange hidden behind backward, "
            f"{ms(setting.phases.exchange)} exposed, {ms(setting.phases.wait)} waiting for the last worker."
        )


def _chart(results: Results, row: Result, slices: Sequence[Mapping[str, Any]], until: float) -> Chart:
    """All timelines of a model have the same axis, so that they can be compared."""
    data = alt.Chart(charts.rows(slices))
    x = alt.X("from:Q", title="ms since the step began", axis=charts.axis(), scale=alt.Scale(domain=[0, until]))
    y = alt.Y("lane:O", axis=None)
    bars = data.mark_bar(height=15, yOffset=7).encode(
        x=x,
        x2="to:Q",
        y=y,
        color=charts.parts("part", _PARTS),
        tooltip=charts.hover(label="worker", what="what", length="took"),
    )
    names: alt.Chart = data.transform_filter("datum.first").mark_text(
        style="name", dy=0, fontSize=11, limit=alt.ExprRef("width")
    )
    lanes = 1 + max(s["lane"] for s in slices)
    shown = shown_first(results)
    return Chart(
        name=f"step-{results.lines.index(row.line) + 1}-{row.workers}",
        title=f"{row.label}: step {slices[0]['step']}",
        subtitle=row.conditions,
        definition=charts.layered(
            bars, names.encode(x=alt.value(0), y=y, text="label:N"), shown=shown, height=lanes * _LANE
        ),
        line=row.line,
    )


def _typical_step(row: Result) -> list[dict[str, Any]]:
    run = row.runs[0]
    if not run.series or not _is_whole(run.series):
        return []
    number = _nearest_to_median(run, run.series)
    return [] if number is None else list(_slices(run, run.series, number))


def _is_whole(series: Sequence[WorkerSeries]) -> bool:
    """Whether every worker has what a trace is made of: files of earlier versions may lack some of it."""
    return all(
        needed.size
        for worker in series
        for needed in (
            *(worker.begin, worker.end, worker.arrival, worker.samples, worker.held),
            *(worker.of_phase(name) for name in PHASES if name != "wait"),  # which follows from the arrivals
        )
    )


def _nearest_to_median(run: StoredRun, series: Sequence[WorkerSeries]) -> int | None:
    """Of the timed steps, of those with watched buckets if there are any: the one nearest to the median."""
    there = min(len(worker.end) for worker in series)
    timed = np.arange(there)[run.timed]
    watched = np.intersect1d(timed, series[0].bucket_step.astype(int))
    steps = watched if len(watched) else timed
    if not len(steps):
        return None
    lengths = (series[0].end - series[0].begin)[steps]
    return int(steps[np.argmin(np.abs(lengths - np.median(lengths)))])


def _slices(run: StoredRun, series: Sequence[WorkerSeries], number: int) -> Iterator[dict[str, Any]]:
    """The trace of one step, in milliseconds since the first worker began it."""
    events = [e for e in trace(run, series, [number])["traceEvents"] if e["ph"] == "X" and e["pid"] < _MOST_WORKERS]
    whole = [e for e in events if e["name"] == f"step {number}"]
    origin = min(e["ts"] for e in whole)
    lane = 0
    for rank in sorted({e["pid"] for e in whole}):
        own = [e for e in events if e["pid"] == rank and e not in whole]
        phases, buckets = ([e for e in own if (e["tid"] > 0) == watched] for watched in (False, True))
        arrived = max((e["ts"] + e["dur"] for e in phases if e["name"] == "backward"), default=origin)
        bars = [(_EXPOSED if e["name"] == "exchange" else e["name"], "", e["ts"], e["ts"] + e["dur"]) for e in phases]
        exchanged = [part for e in buckets for part in _parts(e, arrived)]
        worker = f"worker {rank} ({run.record.per_worker[rank].device})"
        for label, found in ((worker, bars), (f"its exchange, {count(len(buckets), 'bucket')}", exchanged)):
            for place, (part, whose, since, until) in enumerate(found):
                common = {"lane": lane, "label": label, "step": number, "first": place == 0}
                yield {**common, **_bar(part, whose, since - origin, until - origin)}
            lane += bool(found)


def _parts(event: Mapping[str, Any], arrived: float) -> Iterator[tuple[str, str, float, float]]:
    """A bucket's exchange: hidden until the worker's last gradient is ready, then exposed."""
    begin, end = event["ts"], event["ts"] + event["dur"]
    for part, since, until in ((_HIDDEN, begin, min(end, arrived)), (_EXPOSED, max(begin, arrived), end)):
        if until > since:
            yield part, event["name"], since, until


def _bar(part: str, whose: str, since: float, until: float) -> dict[str, Any]:
    """Microseconds in, milliseconds out."""
    what = f"{whose}, {part}" if whose else part
    ends = {"from": round(since / 1e3, 4), "to": round(until / 1e3, 4)}
    return {"part": part, "what": what, **ends, "length": ms((until - since) / 1e6)}

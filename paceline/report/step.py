"""Draw one step: the phases of every worker, and its communication, overlapped and exposed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np

from paceline.breakdown.trace import Event, trace
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
_OVERLAPPED, _EXPOSED = "overlapped communication", "exposed communication"
_PARTS = ("forward", _EXPOSED, "backward", "wait", "input", _OVERLAPPED, "other", "update")
"""In the order of the colours: communication must stand out from the phases it overlaps with."""

_LANE = 30


@dataclass(frozen=True)
class _Span:
    """A slice of a trace, in microseconds."""

    rank: int
    lane: int
    name: str
    begin: float
    end: float

    @classmethod
    def of(cls, event: Event) -> "_Span":
        return cls(event["pid"], event["tid"], event["name"], event["ts"], event["ts"] + event["dur"])


@dataclass(frozen=True, kw_only=True)
class _Bar:
    """A phase of a worker, or the overlapped or exposed part of a bucket's exchange."""

    lane: int
    label: str
    step: int
    first: bool
    """Whether it is the first in its lane, which then gets its label."""

    part: str
    bucket: str
    """The name of the bucket; empty for a phase."""

    begin: float
    """In microseconds since the first worker began the step."""

    end: float

    @property
    def row(self) -> charts.Datum:
        """The bar as chart data, in milliseconds."""
        return {
            "lane": self.lane,
            "label": self.label,
            "step": self.step,
            "first": self.first,
            "part": self.part,
            "what": f"{self.bucket}, {self.part}" if self.bucket else self.part,
            "from": round(self.begin / 1e3, 4),
            "to": self.end_milliseconds,
            "length": ms((self.end - self.begin) / 1e6),
        }

    @property
    def end_milliseconds(self) -> float:
        return round(self.end / 1e3, 4)


def step(results: Results) -> Section | None:
    """Timelines of a few settings; None where no run has its series."""
    drawn = [(row, bars) for row in _chosen(results) if (bars := _typical_step(row))]
    if not drawn:
        return None
    words = (
        "The timed step whose length is nearest to the median. The upper lane of a worker shows its phases. The lower "
        "lane shows the communication of its buckets, which overlaps with backward or is exposed after it.",
        *(text for row, _ in drawn for text in _overlap(row)),
    )
    ends: dict[str, float] = {}
    for row, bars in drawn:
        ends[row.panel] = max(ends.get(row.panel, 0.0), *(bar.end_milliseconds for bar in bars))
    timelines = tuple(_chart(results, row, bars, ends[row.panel]) for row, bars in drawn)
    return Section(name="step", title="One step, worker by worker", words=words, charts=timelines)


def _chosen(results: Results) -> list[Result]:
    """The fastest setting, then the largest one of every other strategy that communicates."""
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
            f"{row.label}: on average {ms(hidden)} of communication overlapped with backward, "
            f"{ms(setting.phases.exchange)} exposed, {ms(setting.phases.wait)} waiting for the last worker."
        )


def _chart(results: Results, row: Result, bars: Sequence[_Bar], until: float) -> Chart:
    """One timeline; those of one model share an axis, so that they are comparable."""
    data = alt.Chart(charts.rows(bar.row for bar in bars))
    x = alt.X("from:Q", title="ms since the step began", axis=charts.axis(), scale=alt.Scale(domain=[0, until]))
    y = alt.Y("lane:O", axis=None)
    marks = data.mark_bar(height=15, yOffset=7).encode(
        x=x,
        x2=alt.X2("to"),
        y=y,
        color=charts.parts("part", _PARTS),
        tooltip=charts.hover(label="worker", what="what", length="took"),
    )
    names: alt.Chart = data.transform_filter("datum.first").mark_text(
        style="name", dy=0, fontSize=11, limit=alt.ExprRef("width")
    )
    lanes = 1 + max(bar.lane for bar in bars)
    shown = shown_first(results)
    return Chart(
        name=f"step-{results.lines.index(row.line) + 1}-{row.workers}",
        title=f"{row.label}: step {bars[0].step}",
        subtitle=row.conditions,
        specification=charts.layered(
            marks, names.encode(x=alt.value(0), y=y, text=alt.Text("label:N")), shown=shown, height=lanes * _LANE
        ),
        line=row.line,
    )


def _typical_step(row: Result) -> list[_Bar]:
    run = row.runs[0]
    if not run.series or not _is_whole(run.series):
        return []
    number = _nearest_to_median(run, run.series)
    return [] if number is None else list(_bars(run, run.series, number))


def _is_whole(series: Sequence[WorkerSeries]) -> bool:
    """Whether every worker has all series of a trace; files of earlier versions may lack some."""
    return all(
        needed.size
        for worker in series
        for needed in (
            *(worker.begin, worker.end, worker.arrival, worker.samples, worker.held),
            *(worker.of_phase(name) for name in PHASES if name != "wait"),  # wait follows from the arrivals
        )
    )


def _nearest_to_median(run: StoredRun, series: Sequence[WorkerSeries]) -> int | None:
    """The timed step nearest to the median; preferably one with recorded buckets."""
    steps_of_all = min(len(worker.end) for worker in series)
    timed = np.arange(steps_of_all)[run.timed]
    watched = np.intersect1d(timed, series[0].bucket_step.astype(int))
    steps = watched if len(watched) else timed
    if not len(steps):
        return None
    lengths = (series[0].end - series[0].begin)[steps]
    return int(steps[np.argmin(np.abs(lengths - np.median(lengths)))])


def _bars(run: StoredRun, series: Sequence[WorkerSeries], number: int) -> Iterator[_Bar]:
    """The trace of one step as bars: a lane for the phases of each worker, and one for its buckets."""
    spans = [_Span.of(event) for event in trace(run, series, [number])["traceEvents"] if event["ph"] == "X"]
    spans = [span for span in spans if span.rank < _MOST_WORKERS]
    whole = [span for span in spans if span.name == f"step {number}"]
    origin = min(span.begin for span in whole)
    lane = 0
    for rank in sorted({span.rank for span in whole}):
        own = [span for span in spans if span.rank == rank and span not in whole]
        phases, buckets = ([span for span in own if (span.lane > 0) == on_lane] for on_lane in (False, True))
        arrived = max((span.end for span in phases if span.name == "backward"), default=origin)
        phase_parts = [(_EXPOSED if s.name == "exchange" else s.name, "", s.begin, s.end) for s in phases]
        bucket_parts = [part for bucket in buckets for part in _parts(bucket, arrived)]
        worker = f"worker {rank} ({run.record.per_worker[rank].device})"
        communication = f"its communication, {count(len(buckets), 'bucket')}"
        for label, parts in ((worker, phase_parts), (communication, bucket_parts)):
            for place, (part, bucket, begin, end) in enumerate(parts):
                yield _Bar(
                    lane=lane,
                    label=label,
                    step=number,
                    first=place == 0,
                    part=part,
                    bucket=bucket,
                    begin=begin - origin,
                    end=end - origin,
                )
            lane += bool(parts)


def _parts(bucket: _Span, arrived: float) -> Iterator[tuple[str, str, float, float]]:
    """Split a bucket's exchange: overlapped until the worker's last gradient is ready, exposed afterwards."""
    overlapped = (_OVERLAPPED, bucket.begin, min(bucket.end, arrived))
    exposed = (_EXPOSED, max(bucket.begin, arrived), bucket.end)
    for part, begin, end in (overlapped, exposed):
        if end > begin:
            yield part, bucket.name, begin, end

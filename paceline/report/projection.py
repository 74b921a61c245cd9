"""Project more workers: the projected curve with its bands, and the measured points."""

import math
from collections.abc import Iterator, Sequence

import altair as alt
import numpy as np

from paceline.errors import DataError, RequestError
from paceline.numbers import count, percent
from paceline.project.curve import KNEE_GAIN, Point, Projected
from paceline.project.questions import words
from paceline.project.questions.answer import Answer, Runs
from paceline.project.questions.points import parse_workers
from paceline.project.questions.whatif import Question
from paceline.record import Record
from paceline.report import charts
from paceline.report.results import Result, Results
from paceline.report.section import Chart, Section
from paceline.report.shown import fastest, lines_of, shown_first
from paceline.report.tables import PageTable, TableCell, number, word
from paceline.traffic.catalogue import exchanges

_TIMES = 8
"""The curve extends to this many times the largest measured worker count."""

_MOST_LINES = 2
_MOST_POINTS = 200
_LOGARITHMIC = 64
"""Both axes are logarithmic where the most workers are more than this many times the fewest."""

_FAR = 0.1
"""Where curve and measurement differ by more than this share, the page says so."""

_ROOM = 1.12
_ABOVE = 2.0
"""How far above the band the ideal line continues."""

_HOVER = {
    "workers": "workers",
    "rate": "throughput",
    "within80": "80 % band",
    "within95": "95 % band",
    "limit": "limit",
}
_LEGEND = "Line: projected; bands: 80 % and 95 %; points: measured; dotted grey: ideal"


def projection(results: Results) -> Section | None:
    """Project the curve of the fastest setting and a few others; None where no curve has two worker counts."""
    lines = _in_order(results)
    sentences: list[str] = []
    drawn: list[tuple[str, Answer]] = []
    for line in lines:
        rows = [row for row in results.rows if row.line == line]
        if len(drawn) < _MOST_LINES and _has_counts(rows):
            try:
                drawn.append((line, _answer(rows)))
            except RequestError as error:
                sentences.append(f"No projection for {line}: {error}")
    if not drawn:
        return None
    for line, answer in drawn:
        sentences.append(f"{line}: {' '.join(words.sentences(answer.curve, answer.unit))}")
        sentences.extend(f"{line}: {doubt}" for doubt in _doubts(answer))
    warnings = dict.fromkeys(warning for _, answer in drawn for warning in answer.curve.warnings)
    charted = tuple(
        _on_page(results, line, answer, f"projection-{place}") for place, (line, answer) in enumerate(drawn, 1)
    )
    return Section(
        name="projection",
        title="Projection: throughput with more workers",
        words=(*sentences, *warnings, f"Validated on {drawn[0][1].curve.validated_on}."),
        charts=charted,
        tables=(_table(drawn),),
    )


def _in_order(results: Results) -> list[str]:
    """The curve of the fastest setting, then one for every other network, then those shown initially."""
    networks: dict[object, str] = {}
    for row in sorted(results.rows, key=lambda row: row.workers, reverse=True):
        networks.setdefault(row.record.spec.network, row.line)
    linked = [line for network, line in networks.items() if network is not None]
    return list(dict.fromkeys((fastest(results.rows).line, *linked, *shown_first(results))))


def chart(answer: Answer) -> Chart:
    """The chart of one answer; refuses an answer without throughput."""
    if not any(p.throughput for p in answer.curve.points):
        raise DataError("--chart needs throughput: add a column `throughput`, or `batch`, to the table.")
    return _drawn(answer, [answer.subject], answer.subject, "projection")


def _has_counts(rows: Sequence[Result]) -> bool:
    """Whether the curve has a count of workers that exchange gradients, and a smaller count."""
    exchanging = [row for row in rows if row.workers > 1 and exchanges(row.record.spec.strategy)]
    return bool(exchanging) and len({record.spec.workers for record in _records(rows)}) > 1


def _records(rows: Sequence[Result]) -> list[Record]:
    """All repeats and their one-worker baselines."""
    records = [record for row in rows for record in (*row.scaling.records, *row.scaling.baseline)]
    return list({id(record): record for record in records}.values())


def _answer(rows: Sequence[Result]) -> Answer:
    """The answer of `paceline project`; strong scaling keeps the total batch."""
    most = max(rows, key=lambda row: row.workers)
    whole = most.record.batch * most.workers if most.scaling.scaling == "strong" else None
    counts = parse_workers(f"1..{_TIMES * most.workers}")
    points = [Point(n, batch=None if whole is None else whole / n) for n in counts if whole is None or whole >= n]
    return Runs.of(_records(rows), most.record.spec.strategy).ask(points, Question())


def _doubts(answer: Answer) -> Iterator[str]:
    """Where the measurements contradict the curve or its knee."""
    measured, knee = sorted(answer.measured), answer.curve.knee_workers
    projected = {p.point.workers: p.throughput for p in answer.curve.points if p.throughput}
    far = [(n, projected[n], value) for n, value in measured if n in projected and _apart(projected[n], value) > _FAR]
    if far:
        n, there, value = max(far, key=lambda item: _apart(item[1], item[2]))
        side = f"{percent(abs(there / value - 1))} {'above' if there > value else 'below'}"
        yield (
            f"At {count(n, 'worker')} the curve is at {words.number(there)} {answer.unit}, {side} the measured "
            f"{words.number(value)}: rely on the measurement there, and on the band beyond it."
        )
    beyond = [(n, value) for n, value in measured if knee is not None and n >= knee]
    if len(beyond) > 1 and beyond[-1][0] >= 2 * beyond[0][0]:
        (first, low), (last, high) = beyond[0], beyond[-1]
        if (high / low) ** (1 / math.log2(last / first)) >= KNEE_GAIN:
            yield (
                f"The measurements do not show this knee: from {first:,} to {last:,} workers throughput still grows "
                f"from {words.number(low)} to {words.number(high)} {answer.unit}."
            )


def _apart(first: float, second: float) -> float:
    """The larger of two rates ÷ the smaller, − 1."""
    return max(first, second) / min(first, second) - 1


def _on_page(results: Results, line: str, answer: Answer, name: str) -> Chart:
    """A chart in the colour that the curve has elsewhere; it is shown when the curve is."""
    panel = next(row.panel for row in results.rows if row.line == line)
    return _drawn(answer, lines_of(results.of_panel(panel)), line, name, on_page=True)


def _drawn(answer: Answer, lines: Sequence[str], line: str, name: str, *, on_page: bool = False) -> Chart:
    curve = answer.curve
    x, y = _axes(answer)
    colour = alt.Color("line:N", scale=alt.Scale(domain=list(lines)), legend=None, sort=None)
    projected = alt.Chart(charts.rows({"line": line, **row} for row in _rows(answer)))
    bands = [
        projected.mark_area(opacity=opacity, clip=True).encode(
            x=x, y=charts.of_field(y, f"low{percent}"), y2=alt.Y2(f"high{percent}"), color=colour
        )
        for percent, opacity in ((95, 0.16), (80, 0.28))
    ]
    middle = projected.mark_line(clip=True).encode(x=x, y=y, color=colour)
    near = projected.mark_point(size=120, opacity=0).encode(x=x, y=y, tooltip=charts.hover(**_HOVER))
    measured = alt.Chart(charts.rows({"line": line, "workers": n, "value": v} for n, v in answer.measured))
    points = measured.mark_point(filled=True, size=80, opacity=1).encode(
        x=x, y=y, color=colour, tooltip=charts.hover(workers="workers", value="measured")
    )
    layers = [*bands, *_ideal(answer, x, y), middle, *_knee(answer, x), points, near]
    last = max(curve.points, key=lambda p: p.point.workers)
    reached = f"{words.number(last.throughput)} {answer.unit} (80 %: {words.band(last.low80, last.high80)})"
    as_measured = "" if answer.measured_as == answer.subject else f" with {answer.measured_as}"
    return Chart(
        name=name,
        title=f"{line}: {count(last.point.workers, 'worker')} would reach {reached}",
        subtitle=f"{answer.unit} against workers. {_LEGEND}".replace(
            "points: measured", f"points: measured{as_measured}"
        ),
        specification=charts.layered(*layers, shown=[line]),
        line=line if on_page else None,
    )


def _axes(answer: Answer) -> tuple[alt.X, alt.Y]:
    """Both axes; logarithmic over a wide range, so that small counts stay visible."""
    rated = [p for p in answer.curve.points if p.throughput]
    counts = [p.point.workers for p in rated] + [n for n, _ in answer.measured]
    values = [p.high95 or 0 for p in rated] + [value for _, value in answer.measured]
    highest = max(min(_ideal_rate(answer) * max(counts), _ABOVE * max(values)), *values) * _ROOM
    if max(counts) / min(counts) <= _LOGARITHMIC:
        along, up = alt.Scale(domain=[0, max(counts)], nice=False), alt.Scale(domain=[0, highest], nice=False)
    else:
        lowest = min(p.low95 or highest for p in rated)
        along = alt.Scale(type="log", base=2, domain=[min(counts), max(counts)], nice=False)
        up = alt.Scale(type="log", domain=[min(lowest, *(value for _, value in answer.measured)), highest], nice=False)
    x = alt.X("workers:Q", title="workers", scale=along, axis=charts.axis(format="d", grid=False, tickMinStep=1))
    return x, alt.Y("value:Q", title=answer.unit, scale=up, axis=alt.Axis(tickCount=6))


def _rows(answer: Answer) -> Iterator[charts.Datum]:
    """As many points as a line needs, in order of workers."""
    rated = sorted((p for p in answer.curve.points if p.throughput), key=lambda p: p.point.workers)
    kept = np.unique(np.geomspace(1, len(rated), min(len(rated), _MOST_POINTS)).round().astype(int)) - 1
    for p in (rated[index] for index in kept):
        yield {
            "workers": p.point.workers,
            "value": p.throughput,
            "low80": p.low80,
            "high80": p.high80,
            "low95": p.low95,
            "high95": p.high95,
            "rate": f"{words.number(p.throughput)} {answer.unit}",
            "within80": words.band(p.low80, p.high80),
            "within95": words.band(p.low95, p.high95),
            "limit": p.limit,
        }


def _ideal_rate(answer: Answer) -> float:
    """The ideal rate per worker: that of the fewest measured, or else projected, workers."""
    points = answer.measured or [(p.point.workers, p.throughput) for p in answer.curve.points if p.throughput]
    workers, rate = min(points, key=lambda point: point[0])
    return rate / workers


def _ideal(answer: Answer, x: alt.X, y: alt.Y) -> Iterator[alt.Chart]:
    rate = _ideal_rate(answer)
    counts = {p.point.workers for p in answer.curve.points} | {n for n, _ in answer.measured}
    ends = alt.Chart(charts.rows({"workers": n, "value": rate * n} for n in (min(counts), max(counts))))
    yield ends.mark_line(style="ideal", clip=True).encode(x=x, y=y)


def _knee(answer: Answer, x: alt.X) -> Iterator[alt.Chart]:
    knee = answer.curve.knee_workers
    if knee is not None:
        marker = alt.Chart(charts.rows([{"workers": knee}]))
        yield marker.mark_rule(style="knee").encode(x=x)
        yield marker.mark_text(align="left", dx=5, text=f"knee: {knee}").encode(x=x, y=alt.value(10))


def _table(drawn: Sequence[tuple[str, Answer]]) -> PageTable:
    several = dict.fromkeys(answer.unit for _, answer in drawn)
    rows = [
        (line, answer.curve.points[index])
        for line, answer in drawn
        for index in words.shown(answer.curve.points, _TIMES)
    ]
    return PageTable(
        name="projection",
        title=f"Projected throughput, in {' and '.join(several)}",
        headings=("setting", "workers", "throughput", "80 % band", "95 % band", "limit"),
        rows=tuple((word(line), *_cells(point)) for line, point in rows),
        lines=tuple(line for line, _ in rows),
    )


def _cells(p: Projected) -> tuple[TableCell, ...]:
    bands = (
        TableCell(words.band(low, high), low, low, high) for low, high in ((p.low80, p.high80), (p.low95, p.high95))
    )
    return number(p.point.workers), number(p.throughput, words.number), *bands, word(p.limit)

"""Compare our speed-up and efficiency with a published reference; throughput on other hardware is not comparable."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import altair as alt

from paceline import references
from paceline.errors import SpecError
from paceline.measure.stats import Figure
from paceline.numbers import count
from paceline.record import Record
from paceline.references import spreadsheet
from paceline.references.audit import audit
from paceline.references.base import Reference
from paceline.references.findings import Finding, listed
from paceline.report import charts, curves
from paceline.report.published.counterparts import Counterpart, counterparts
from paceline.report.published.fields import networks_of, nodes_of
from paceline.report.results import Results
from paceline.report.scaling import conditions, share, times
from paceline.report.section import Chart, Section
from paceline.report.shown import shown_first
from paceline.report.tables import PageTable, TableCell, number, word
from paceline.studies.columns import NOTHING

_ROOM = 1.12
_MOST_FINDINGS = 3
_FIGURES = re.compile(r"\d[\d.,]*")
_FILES = (".csv", ".tsv", ".txt", ".md")
_HEADINGS = (
    *("ours", "theirs", "workers", "per device", "devices", "their devices"),
    *("speed-up", "their speed-up", "efficiency", "their efficiency", "batch per worker", "their batch"),
)
_HOVER = {
    "whose": "whose",
    "name": "setting",
    "workers": "workers",
    "devices": "devices",
    "speedup_text": "speed-up (95 %)",
    "efficiency_text": "efficiency (95 %)",
    "batch": "batch per worker",
}


@dataclass(frozen=True, kw_only=True)
class _Point:
    """A point of our curve or of theirs."""

    ours: bool
    whose: str
    name: str
    batch: str
    line: str
    workers: int
    devices: float
    speedup: Figure
    efficiency: Figure | None

    @property
    def row(self) -> charts.Datum:
        """The point as chart data: figures with their intervals, and their texts."""
        row: charts.Datum = {"ours": self.ours, "whose": self.whose, "name": self.name, "batch": self.batch}
        row |= {"line": self.line, "workers": self.workers, "devices": self.devices}
        for name, value, text in (("speedup", self.speedup, times), ("efficiency", self.efficiency, share)):
            row |= {**curves.columns(name, value), f"{name}_text": text(value).text}
        return row


def find(what: str) -> Reference:
    """The reference called `what`, or the table in a CSV file; refuse anything else and suggest the nearest name."""
    path = Path(what)
    if what not in references.names() and (path.is_file() or path.suffix in _FILES):
        return spreadsheet.read(path)
    try:
        return references.load(what)
    except SpecError as error:
        raise SpecError(f"{error} You can also give a CSV file.") from None


def section(results: Results, reference: Reference) -> Section:
    """Our results and theirs in charts and a table, with a list of what differs between them."""
    pairs = counterparts(results.rows, reference)
    words = (
        *_missing(pairs, results, reference),
        *_findings(pairs),
        "The comparison covers speed-up and efficiency, not throughput. The last table lists what else differs, and "
        f"known problems of the reference. The dotted grey line is the ideal. Of ours: {curves.LEGEND}",
    )
    drawn = any(pair.theirs_speedup is not None for pair in pairs)
    differences = _differences(results, reference, pairs)
    return Section(
        name="against",
        title=f"Ours against {reference.name}: {reference.title}",
        words=words,
        charts=(_speedup(results, reference, pairs), _efficiency(results, reference, pairs)) if drawn else (),
        tables=(_table(reference, pairs), differences) if drawn else (differences,),
    )


def _missing(pairs: Sequence[Counterpart], results: Results, reference: Reference) -> Iterator[str]:
    if not any(pair.theirs_speedup is not None for pair in pairs):
        yield f"{reference.name} has no speed-up to compare with: it has no one-worker row with the same settings."
    if not any(row.scaling.speedup for row in results.rows):
        yield "Our runs have no speed-up: add one worker of `independent` with the same settings to the study."
    alone = dict.fromkeys(pair.line for pair in pairs if pair.series is None)
    if alone and len(alone) < len(results.lines):
        yield f"{reference.name} has no counterpart of {listed(list(alone))}."
    other = {p.strategy: p.series.strategy for p in pairs if p.series is not None and not p.same_strategy}
    if other:
        compared = listed([f"{ours} with {theirs}" for ours, theirs in other.items()])
        yield f"No strategy occurs in both, so the comparison is between different strategies: {compared}."


def _findings(pairs: Sequence[Counterpart]) -> Iterator[str]:
    """A sentence about the most workers that both have, for the first few curves."""
    last: dict[str, Counterpart] = {}
    for pair in pairs:
        if pair.workers > 1 and pair.ours_speedup is not None and pair.theirs_speedup is not None:
            last[pair.line] = max(pair, last.get(pair.line, pair), key=lambda p: p.workers)
    for line, pair in list(last.items())[:_MOST_FINDINGS]:
        yield (
            f"{line} at {count(pair.workers, 'worker')}: our speed-up is {times(pair.ours_speedup).text}, theirs "
            f"{times(pair.theirs_speedup).text}; our efficiency is {share(pair.ours_efficiency).text}, theirs "
            f"{share(pair.theirs_efficiency).text}."
        )
    if len(last) > _MOST_FINDINGS:
        yield f"The table lists all {len(last)} curves."


def _differences(results: Results, reference: Reference, pairs: Sequence[Counterpart]) -> PageTable:
    """Differences other than the strategy that may explain the results."""
    records = [row.record for row in results.rows]
    compared = [pair.theirs for pair in pairs if pair.theirs is not None] or [
        row for series in reference.series for row in series.rows
    ]
    theirs = {row.batch for row in compared if row.batch is not None}
    lines = {
        "hardware": (listed(list(dict.fromkeys(map(_hardware, records)))), reference.hardware),
        "workload": (listed(list(dict.fromkeys(map(_workload, records)))), reference.workload),
        "batch per worker": (_numbers({record.batch for record in records}), _numbers(theirs)),
        "network": (_nodes(results), _network(pairs)),
        "speed-up against": ("one worker alone on one device, without communication", reference.baseline),
        "source": (results.title, reference.source),
    }
    return PageTable(
        name="differences",
        title=f"What differs between ours and {reference.name}",
        headings=("what", "ours", "theirs"),
        rows=tuple((word(name), word(ours), word(their)) for name, (ours, their) in lines.items()),
        notes=tuple(_faults(reference, pairs)),
    )


def _hardware(record: Record) -> str:
    environment = record.environment
    cores = "an unknown number of cores" if environment.cores is None else count(environment.cores, "core")
    return f"{environment.processor}, {cores}; devices: {environment.device_kind}"


def _workload(record: Record) -> str:
    return f"{record.spec.workload} ({record.workload.parameters:,} parameters)"


def _numbers(values: set[int]) -> str:
    return listed([f"{value:,}" for value in sorted(values)]) or "not stated"


def _nodes(results: Results) -> str:
    most = max(nodes_of(row.record) for row in results.rows)
    if most == 1:
        return "one node"
    links = listed(networks_of(row.record for row in results.rows)) or "bandwidth not measured"
    return f"{links}, up to {most} nodes"


def _network(pairs: Sequence[Counterpart]) -> str:
    methods = [pair.series.method for pair in pairs if pair.series is not None]
    rates = {rate for method in methods if (rate := method.bandwidth_bits_per_second) is not None}
    nodes = {row.nodes for pair in pairs if (row := pair.theirs) is not None and row.nodes is not None}
    links = listed([f"{rate / 1e9:g} Gbit/s" for rate in sorted(rates)]) or "bandwidth not stated"
    return f"{links}, up to {count(max(nodes), 'node')}" if nodes else links


def _faults(reference: Reference, pairs: Sequence[Counterpart]) -> Iterator[str]:
    """Known problems of the compared series, or of all series where none is compared; groups similar findings."""
    compared = {pair.series.label for pair in pairs if pair.series is not None}
    compared = compared or {series.label for series in reference.series}
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in audit(reference):
        if finding.severity != "note" and compared & set(finding.series):
            grouped.setdefault((finding.severity, _FIGURES.sub("#", finding.sentence)), []).append(finding)
    for (severity, _), findings in grouped.items():
        where = list(dict.fromkeys(label for f in findings for label in f.series if label in compared))
        about = [listed(where)] if len(where) < len(compared) else []
        about += ["figures of the first"] if len(findings) > 1 else []
        place = f" ({'; '.join(about)})" if about else ""
        yield f"Known {severity} of {reference.name}{place}: {findings[0].sentence}"


def _table(reference: Reference, pairs: Sequence[Counterpart]) -> PageTable:
    """A row for each of our settings; the chart also has the rows that only they have."""
    ours = [pair for pair in pairs if pair.ours is not None]
    return PageTable(
        name="against",
        title=f"Speed-up and efficiency, ours and those of {reference.name}",
        headings=_HEADINGS,
        rows=tuple(_cells(pair) for pair in ours),
        lines=tuple(pair.line for pair in ours),
        notes=(f"Theirs: {reference.source} {NOTHING} means that theirs has no such row.",),
    )


def _cells(pair: Counterpart) -> tuple[TableCell, ...]:
    ours, theirs = pair.ours, pair.theirs
    return (
        word(pair.line),
        word(pair.series.label if pair.series is not None else NOTHING),
        number(pair.workers),
        number(pair.workers_per_device),
        number(ours.record.devices if ours is not None else None),
        number(theirs.used_devices if theirs is not None else None, lambda value: f"{value:g}"),
        times(pair.ours_speedup),
        times(pair.theirs_speedup),
        share(pair.ours_efficiency),
        share(pair.theirs_efficiency),
        number(ours.record.batch if ours is not None else None),
        number(theirs.batch if theirs is not None else None),
    )


def _speedup(results: Results, reference: Reference, pairs: Sequence[Counterpart]) -> Chart:
    """Speed-up against devices, so that one ideal line applies to both, however many workers share a device."""
    points = [*_ours(pairs), *_theirs(reference, pairs)]
    most = max(point.devices for point in points)
    highest = max(most, *(point.speedup.value for point in points))
    y = alt.Y("value:Q", title="speed-up over one worker", scale=alt.Scale(domain=[0, highest * _ROOM], nice=False))
    ends: list[charts.Datum] = [{"devices": end, "value": end} for end in (0, most)]
    return _drawn(results, reference, points, ends, y, "speed-up")


def _efficiency(results: Results, reference: Reference, pairs: Sequence[Counterpart]) -> Chart:
    points = [p for p in (*_ours(pairs), *_theirs(reference, pairs)) if p.efficiency is not None]
    highest = max(1.0, *(point.efficiency.value for point in points if point.efficiency is not None))
    scale, axis = alt.Scale(domain=[0, highest * _ROOM], nice=False), alt.Axis(format=".0%")
    y = alt.Y("value:Q", title="share of ideal", scale=scale, axis=axis)
    ends: list[charts.Datum] = [{"devices": end, "value": 1.0} for end in (0, max(point.devices for point in points))]
    return _drawn(results, reference, points, ends, y, "efficiency")


def _drawn(
    results: Results,
    reference: Reference,
    points: Sequence[_Point],
    ends: Sequence[charts.Datum],
    y: alt.Y,
    what: str,
) -> Chart:
    """The ideal line, and our curve and theirs in one colour for every pair."""
    lines = tuple(dict.fromkeys(point.line for point in points))
    devices = sorted({point.devices for point in points})
    scale = alt.Scale(domain=[0, max(devices) * _ROOM], nice=False)
    axis = alt.Axis(values=devices, format="~g", grid=False, labelOverlap=True)
    x = alt.X("devices:Q", title="devices", scale=scale, axis=axis)
    label = alt.Chart(charts.rows(ends[-1:])).mark_text(style="remark", align="right", dy=-10, text="ideal")
    definition = charts.layered(
        alt.Chart(charts.rows(ends)).mark_line(style="ideal").encode(x=x, y=y),
        label.encode(x=x, y=y),
        *_curves(lines, points, x, y, what.replace("-", "")),
        shown=shown_first(results, lines),
    )
    return Chart(
        name=f"against-{what}",
        title=f"{what.capitalize()}: ours with large marks, {reference.name} small and dashed",
        subtitle=f"{conditions(results.rows)} · theirs: {reference.source}",
        specification=definition,
        lines=lines,
    )


def _curves(lines: Sequence[str], points: Sequence[_Point], x: alt.X, y: alt.Y, name: str) -> Iterator[alt.Chart]:
    base = charts.chosen(alt.Chart(charts.rows(point.row for point in points)))
    colour, shape, tooltip = charts.colour(lines), charts.shape(lines), charts.hover(**_HOVER)
    theirs = curves.figure(base.transform_filter("!datum.ours"), name)
    yield theirs.mark_line(strokeDash=[6, 4], strokeWidth=1.5, opacity=0.8).encode(
        x=x, y=y, color=colour, detail=alt.Detail("name:N"), order=alt.Order("workers:Q")
    )
    yield theirs.mark_point(filled=True, size=30, opacity=1).encode(
        x=x, y=y, color=colour, shape=shape, tooltip=tooltip
    )
    ours = curves.figure(base.transform_filter("datum.ours"), name)
    yield from curves.curves(ours, lines, x, y, by=["name"], tooltip=tooltip)


def _ours(pairs: Sequence[Counterpart]) -> Iterator[_Point]:
    for pair in pairs:
        if pair.ours is not None and pair.series is not None and pair.ours_speedup is not None:
            yield _Point(
                ours=True,
                whose="ours",
                name=pair.line,
                batch=str(pair.ours.record.batch),
                line=pair.line,
                workers=pair.workers,
                devices=pair.ours.record.devices,
                speedup=pair.ours_speedup,
                efficiency=pair.ours_efficiency,
            )


def _theirs(reference: Reference, pairs: Sequence[Counterpart]) -> Iterator[_Point]:
    for pair in pairs:
        if pair.series is not None and pair.theirs is not None and pair.theirs_speedup is not None:
            yield _Point(
                ours=False,
                whose=f"{reference.name}: {reference.source}",
                name=pair.series.label,
                batch=str(pair.theirs.batch or NOTHING),
                line=pair.line,
                workers=pair.workers,
                devices=pair.theirs.used_devices or pair.workers,
                speedup=pair.theirs_speedup,
                efficiency=pair.theirs_efficiency,
            )

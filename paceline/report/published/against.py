"""Ours over a reference's, as speed-up and efficiency: speeds of other hardware are not compared."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from paceline.report import charts
from paceline.report.published.counterparts import Counterpart, counterparts
from paceline.report.published.fields import networks_of, nodes_of
from paceline.report.results import Results
from paceline.report.scaling import conditions, share, times
from paceline.report.section import Chart, Section
from paceline.report.shown import shown_first
from paceline.report.tables import PageTable, TableCell, number, word
from paceline.studies.columns import NOTHING

_ROOM = 1.12
_TOLD = 3
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


def find(what: str) -> Reference:
    """The reference that a name means, or a CSV file; anything else is refused with the nearest name."""
    path = Path(what)
    if what not in references.names() and (path.is_file() or path.suffix in _FILES):
        return spreadsheet.read(path)
    try:
        return references.load(what)
    except SpecError as error:
        raise SpecError(f"{error} Or give a CSV file.") from None


def section(results: Results, reference: Reference) -> Section:
    """Both in one chart and one table, and what differs between them in words."""
    pairs = counterparts(results.rows, reference)
    words = (
        *_missing(pairs, results, reference),
        *_findings(pairs),
        "Speeds are not compared, only speed-up and efficiency; what else differs, and what is known to be wrong with "
        "theirs, is below the table.",
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
        yield f"{reference.name} has no speed-up to compare with: one worker was not measured with the same settings."
    if not any(row.scaling.speedup for row in results.rows):
        yield "Ours has no speed-up: add one worker of `independent` with the same settings to the study."
    alone = dict.fromkeys(pair.line for pair in pairs if pair.series is None)
    if alone and len(alone) < len(results.lines):
        yield f"Nothing in {reference.name} corresponds to {listed(list(alone))}."
    other = {p.strategy: p.series.strategy for p in pairs if p.series is not None and not p.same_strategy}
    if other:
        told = listed([f"{ours} with {theirs}" for ours, theirs in other.items()])
        yield f"No strategy is the same in both, so that unlike ones are compared: {told}."


def _findings(pairs: Sequence[Counterpart]) -> Iterator[str]:
    """Of every curve the largest number of workers that both have; of many curves a few."""
    last: dict[str, Counterpart] = {}
    for pair in pairs:
        if pair.workers > 1 and pair.ours_speedup is not None and pair.theirs_speedup is not None:
            last[pair.line] = max(pair, last.get(pair.line, pair), key=lambda p: p.workers)
    for line, pair in list(last.items())[:_TOLD]:
        yield (
            f"{line} at {count(pair.workers, 'worker')}: speed-up {times(pair.ours_speedup).text}, theirs "
            f"{times(pair.theirs_speedup).text}; efficiency {share(pair.ours_efficiency).text}, theirs "
            f"{share(pair.theirs_efficiency).text}."
        )
    if len(last) > _TOLD:
        yield f"The table has all {len(last)} curves."


def _differences(results: Results, reference: Reference, pairs: Sequence[Counterpart]) -> PageTable:
    """What else than the strategy may make the difference."""
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
        "speed-up against": ("one worker alone on one device, without exchange", reference.baseline),
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
    return listed([f"{value:,}" for value in sorted(values)]) or "not said"


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
    links = listed([f"{rate / 1e9:g} Gbit/s" for rate in sorted(rates)]) or "bandwidth not said"
    return f"{links}, up to {count(max(nodes), 'node')}" if nodes else links


def _faults(reference: Reference, pairs: Sequence[Counterpart]) -> Iterator[str]:
    """What is known to be wrong in the series that are compared, or in all of them where none is; like words once."""
    compared = {pair.series.label for pair in pairs if pair.series is not None}
    compared = compared or {series.label for series in reference.series}
    said: dict[tuple[str, str], list[Finding]] = {}
    for finding in audit(reference):
        if finding.severity != "note" and compared & set(finding.series):
            said.setdefault((finding.severity, _FIGURES.sub("#", finding.sentence)), []).append(finding)
    for (severity, _), found in said.items():
        where = list(dict.fromkeys(label for f in found for label in f.series if label in compared))
        about = [listed(where)] if len(where) < len(compared) else []
        about += ["figures of the first"] if len(found) > 1 else []
        place = f" ({'; '.join(about)})" if about else ""
        yield f"Known {severity} of {reference.name}{place}: {found[0].sentence}"


def _table(reference: Reference, pairs: Sequence[Counterpart]) -> PageTable:
    """A row for each of ours; what only they have is in the chart."""
    ours = [pair for pair in pairs if pair.ours is not None]
    return PageTable(
        name="against",
        title=f"Speed-up and efficiency, ours and those of {reference.name}",
        headings=_HEADINGS,
        rows=tuple(_cells(pair) for pair in ours),
        lines=tuple(pair.line for pair in ours),
        notes=(f"Theirs: {reference.source} {NOTHING} stands where theirs has no such row.",),
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
    """Against devices, so that one ideal line holds for both, however many workers share a device."""
    points = [*_ours(pairs), *_theirs(reference, pairs)]
    most = max(point["devices"] for point in points)
    highest = max(most, *(point["speedup"] for point in points))
    y = alt.Y("value:Q", title="times one worker", scale=alt.Scale(domain=[0, highest * _ROOM], nice=False))
    ends = [{"devices": end, "value": end} for end in (0, most)]
    return _drawn(results, reference, points, ends, y, "speed-up")


def _efficiency(results: Results, reference: Reference, pairs: Sequence[Counterpart]) -> Chart:
    points = [p for p in (*_ours(pairs), *_theirs(reference, pairs)) if p["efficiency"] is not None]
    highest = max(1.0, *(point["efficiency"] for point in points))
    scale, axis = alt.Scale(domain=[0, highest * _ROOM], nice=False), alt.Axis(format=".0%")
    y = alt.Y("value:Q", title="share of the ideal", scale=scale, axis=axis)
    ends = [{"devices": end, "value": 1.0} for end in (0, max(point["devices"] for point in points))]
    return _drawn(results, reference, points, ends, y, "efficiency")


def _drawn(
    results: Results,
    reference: Reference,
    points: Sequence[Mapping[str, Any]],
    ends: Sequence[Mapping[str, Any]],
    y: alt.Y,
    what: str,
) -> Chart:
    """The ideal, which is a straight line, and both curves of every colour that has a counterpart."""
    lines = tuple(dict.fromkeys(point["line"] for point in points))
    devices = sorted({point["devices"] for point in points})
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
        title=f"{what.capitalize()}: ours solid, {reference.name} dashed",
        subtitle=f"{conditions(results.rows)} · theirs: {reference.source}",
        definition=definition,
        lines=lines,
    )


def _curves(
    lines: Sequence[str], points: Sequence[Mapping[str, Any]], x: alt.X, y: alt.Y, name: str
) -> Iterator[alt.Chart]:
    base = charts.chosen(alt.Chart(charts.rows(points))).transform_calculate(
        value=f"datum.{name}", low=f"datum.{name}_low", high=f"datum.{name}_high"
    )
    colour, shape = charts.colour(lines), charts.shape(lines)
    theirs = base.transform_filter("!datum.ours")
    yield theirs.mark_line(strokeDash=[6, 4], strokeWidth=1.5, opacity=0.8).encode(
        x=x, y=y, color=colour, detail="name:N", order="workers:Q"
    )
    ours = base.transform_filter("datum.ours")
    yield ours.mark_line().encode(x=x, y=y, color=colour, detail="name:N", order="workers:Q")
    yield (
        ours.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(clip=True, style="interval")
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    )
    for mark, filled in ((theirs, False), (ours, True)):
        yield mark.mark_point(filled=filled, size=80, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=charts.hover(**_HOVER)
        )


def _ours(pairs: Sequence[Counterpart]) -> Iterator[dict[str, Any]]:
    for pair in pairs:
        if pair.ours is not None and pair.series is not None and pair.ours_speedup is not None:
            about = {"ours": True, "whose": "ours", "name": pair.line, "batch": str(pair.ours.record.batch)}
            yield {**about, **_point(pair, pair.ours_speedup, pair.ours_efficiency, pair.ours.record.devices)}


def _theirs(reference: Reference, pairs: Sequence[Counterpart]) -> Iterator[dict[str, Any]]:
    whose = f"{reference.name}: {reference.source}"
    for pair in pairs:
        if pair.series is not None and pair.theirs is not None and pair.theirs_speedup is not None:
            batch, devices = pair.theirs.batch, pair.theirs.used_devices or pair.workers
            about = {"ours": False, "whose": whose, "name": pair.series.label, "batch": str(batch or NOTHING)}
            yield {**about, **_point(pair, pair.theirs_speedup, pair.theirs_efficiency, devices)}


def _point(pair: Counterpart, speedup: Figure, efficiency: Figure | None, devices: float) -> dict[str, Any]:
    values: dict[str, Any] = {"line": pair.line, "workers": pair.workers, "devices": devices}
    for name, value, text in (("speedup", speedup, times), ("efficiency", efficiency, share)):
        values |= {
            name: value.value if value is not None else None,
            f"{name}_low": value.low if value is not None else None,
            f"{name}_high": value.high if value is not None else None,
            f"{name}_text": text(value).text,
        }
    return values

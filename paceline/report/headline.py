"""The answer first: a verdict in two sentences, then the table of all settings."""

from collections.abc import Iterator, Sequence

from paceline.explain.verdict import explain
from paceline.measure.families import Family, families
from paceline.numbers import count, rate
from paceline.numbers import number as digits
from paceline.report.results import Result, Results, measured
from paceline.report.scaling import conditions, share, times
from paceline.report.section import Section
from paceline.report.shown import fastest
from paceline.report.tables import PageTable, TableCell, interval, missing, number, word
from paceline.studies.columns import NOTHING, Column, column
from paceline.studies.table import figure

_NAMED = 3
_LEARNED = ("val_loss", "loss")


def verdict(results: Results) -> tuple[str, str]:
    """The best setting, and what keeps it from ideal scaling."""
    best = fastest(results.rows)
    return _first(results, best), _second(best)


def about(results: Results) -> str:
    """The conditions and the machine in one line."""
    first = results.rows[0].record
    workloads = " and ".join(results.panels[:_NAMED]) + (" and others" if len(results.panels) > _NAMED else "")
    place = first.environment
    cores = "an unknown number of cores" if place.cores is None else count(place.cores, "core")
    return f"{workloads} · {conditions(results.rows)} · {place.processor}, {cores}"


def _first(results: Results, best: Result) -> str:
    speed = f"{figure(best.scaling.throughput, rate)} {best.unit}"
    if not best.scaling.throughput.known:
        return f"The throughput of {best.label} is not known: {best.scaling.not_known}"
    if best.workers == 1 or best.scaling.speedup is None:
        why = best.scaling.not_known or "there is no one-worker run."
        return f"{best.label} reaches {speed}" + ("." if best.workers == 1 else f"; its speed-up is not known: {why}")
    reached = f"{times(best.scaling.speedup).text} the rate of one worker on {count(best.record.devices, 'device')}"
    family = _family(results, best)
    if family is None:
        return f"{best.label} reaches {reached}: {speed}."
    if family.table.smallest is None:
        return f"{best.label} reaches {reached}; whether other settings are as fast is not known from one turn."
    own = best.scaling.records
    labels = {id(row.scaling.records): row.label for row in results.rows}
    equal = [labels[id(s)] for s in family.settings if s is not own and not family.difference(own, s).seen]
    if not equal:
        many = len(family.settings)
        return f"{best.label} is the fastest of {many} settings with as many workers: it reaches {reached}."
    others = equal[0] if len(equal) == 1 else f"{len(equal)} others with as many workers"
    return f"{best.label} reaches {reached}; it is not measurably different from {others}."


def _family(results: Results, best: Result) -> Family | None:
    """The best setting with its alternatives in the same study; None where there is none."""
    rows = [row.scaling for row in results.rows if row.source is best.source]
    return next((f for f in families(rows) if any(s is best.scaling.records for s in f.settings)), None)


def _second(best: Result) -> str:
    return explain(best.case).verdict


def headline(results: Results) -> Section:
    """Every setting with its figures."""
    return Section(name="settings", title=_title(results), words=results.notes, tables=(table(results),))


def _title(results: Results) -> str:
    runs = sum(len(row.runs) for row in results.rows)
    return f"{count(len(results.rows), 'setting')}, {count(runs, 'run')}"


def table(results: Results) -> PageTable:
    """A row per setting; conditions that vary are columns, the others are in the title."""
    units = dict.fromkeys(row.unit for row in results.rows)
    headings_of_dimensions = {dimension.heading for dimension in results.dimensions}
    varying = (shown for shown in _CONDITIONS if len({shown.value(row.record) for row in results.rows}) > 1)
    conditions_of = [shown for shown in varying if shown.heading not in headings_of_dimensions]
    scalings = {row.scaling.scaling for row in results.rows} - {None}
    extra = list(_extra(results.rows))
    headings = (
        *(dimension.heading for dimension in results.dimensions),
        *("workers", "devices", *(shown.heading for shown in conditions_of)),
        *(("scaling",) if len(scalings) > 1 else ()),
        f"{next(iter(units))} (95 %)" if len(units) == 1 else "throughput (95 %)",
        *("speed-up (95 %)", "efficiency (95 %)", *(shown.heading for shown in extra)),
    )
    rows = tuple(
        (
            *(number(row.settings[dimension.name], digits) for dimension in results.dimensions),
            *(number(row.workers), number(row.record.devices)),
            *(_cell(shown, row) for shown in conditions_of),
            *((word(row.scaling.scaling or NOTHING),) if len(scalings) > 1 else ()),
            *(_rate(row, several=len(units) > 1), times(row.scaling.speedup, missing(row.scaling))),
            share(row.scaling.efficiency, missing(row.scaling)),
            *(_cell(shown, row) for shown in extra),
        )
        for row in results.rows
    )
    title = f"{results.title}: {conditions(results.rows)}"
    lines = tuple(row.line for row in results.rows)
    return PageTable(name="settings", title=title, headings=headings, rows=rows, lines=lines)


_CONDITIONS = (
    Column("workers per device", lambda record: record.spec.workers_per_device, str),
    Column("batch per worker", lambda record: record.batch, str),
    Column("lr", lambda record: record.learning.lr, "{:g}".format),
    Column("lr rule", lambda record: record.learning.lr_rule, str),
)
"""Conditions that the numbers depend on."""


def _rate(row: Result, *, several: bool) -> TableCell:
    cell = interval(row.scaling.throughput, rate)
    return TableCell(f"{cell.text} {row.unit}", cell.value, cell.low, cell.high) if several else cell


def _extra(rows: Sequence[Result]) -> Iterator[Column]:
    """The columns that the study selects, and always the loss: throughput alone is half the answer."""
    asked = dict.fromkeys(name for row in rows for name in row.source.columns if name != "ideal")
    learned = [name for name in _LEARNED if any(measured(column(name), row) is not None for row in rows)]
    for name in dict.fromkeys((*learned[:1], *asked)):
        yield column(name)


def _cell(shown: Column, row: Result) -> TableCell:
    value = measured(shown, row)
    return TableCell(shown.written(value), value)

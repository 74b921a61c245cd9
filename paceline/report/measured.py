"""What was measured, on which machine, with which versions, and every warning."""

import re
from collections.abc import Iterable, Iterator, Sequence

from paceline.errors import in_one_line
from paceline.explain.verdict import explain
from paceline.measure.links import in_words
from paceline.numbers import count
from paceline.record import FILE_NAME, Record
from paceline.record_parts import Environment
from paceline.report.published.fields import networks_of
from paceline.report.results import Results
from paceline.report.section import Section
from paceline.report.shown import fastest
from paceline.report.tables import PageTable, number, word
from paceline.settings import Role
from paceline.spec import SETTINGS, with_role
from paceline.studies.columns import NOTHING, PERCENTILES, column
from paceline.units import human_bytes, human_seconds

_FIGURES = re.compile(r"\d[\d.,]*")
_NAMED = 3


def measured(results: Results) -> Section:
    """List the facts about the runs and the machine, and all warnings."""
    warnings = _warnings(results)
    title = "What was measured" + (f", and {count(len(warnings.rows), 'warning')}" if warnings.rows else "")
    tables = (_facts(results), *((warnings,) if warnings.rows else ()), _steps(results))
    return Section(name="measured", title=title, tables=tables)


def _facts(results: Results) -> PageTable:
    records = [run.record for row in results.rows for run in row.runs]
    rows = tuple((word(name), word(text or NOTHING)) for name, text in _listed(results, records))
    return PageTable(name="measured", title="The runs and the machine", headings=("what", "value"), rows=rows)


def _steps(results: Results) -> PageTable:
    """What stands beside the median rates: the mean, and how long steps took at most."""
    columns = [column(name) for name in ("mean_rate", *PERCENTILES)]
    rows = []
    for row in results.rows:
        values = [shown.over(row.scaling.records) for shown in columns]
        rows.append((word(row.label), *(number(v, c.text) for v, c in zip(values, columns, strict=True))))
    title = "Mean rates (all units ÷ all seconds), and the time within which half, 90 % and 99 % of the steps ended"
    headings = ("setting", *(shown.heading for shown in columns))
    return PageTable(name="steps", title=title, headings=headings, rows=tuple(rows))


def _listed(results: Results, records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    for name in with_role(Role.SUMMARY):
        yield SETTINGS[name].label, _each(getattr(record.spec, name) for record in records)
    yield "learning rate", _each(f"{r.learning.lr:g}" for r in records)
    yield "learning rate rule", _each(r.learning.lr_rule for r in records)
    yield "parameters", _each(f"{r.workload.parameters:,}" for r in records)
    yield "gradients", _each(human_bytes(r.workload.gradient_bytes) for r in records)
    yield "data", _each(r.workload.data.source for r in records)
    yield "repeats per setting", _range([len(row.runs) for row in results.rows])
    yield "timed steps per run", _range([r.steps_timed for r in records])
    yield "warm-up steps, not counted", _range([r.warmup_steps for r in records])
    yield from _emulated(records)
    timed = sorted(r.seconds_timed for r in records)
    yield "timed seconds per run", " to ".join(dict.fromkeys((human_seconds(timed[0]), human_seconds(timed[-1]))))
    yield from _machine([r.environment for r in records])


def _machine(places: Sequence[Environment]) -> Iterator[tuple[str, str]]:
    """The machine and the versions of its software."""
    yield "host", _each(place.host for place in places)
    yield "system", _each(place.system for place in places)
    yield "processor", _each(place.processor for place in places)
    yield "cores", _each(place.cores for place in places)
    yield "device kind", _each(place.device_kind for place in places)
    yield "backend", _each(place.backend for place in places)
    yield "threads per worker", _each(place.threads_per_worker for place in places)
    yield "git", _each(place.git for place in places)
    for name in dict.fromkeys(name for place in places for name in place.versions):
        yield f"version of {name}", _each(place.versions.get(name) for place in places)


def _emulated(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Nodes, the links between them and emulated devices, where there are any."""
    linked = [r for r in records if r.network is not None]
    if linked:
        yield "nodes", _each(sorted({len(r.network.nodes) for r in linked if r.network is not None}))
        for asked in networks_of(linked):
            these = [r for r in linked if networks_of([r]) == [asked]]
            links = [link for r in these if r.network is not None for link in r.network.nodes]
            yield f"links of {asked}, measured", in_words(links)
    emulated = [r.emulation for r in records if r.emulation is not None]
    if emulated:
        yield "emulated devices", _each(device.source for e in emulated for device in e.devices)
        yield "slow motion", _each(f"{e.slow_motion:g}" for e in emulated)


def _each(values: Iterable[object]) -> str:
    """List every distinct value once."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None))


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _warnings(results: Results) -> PageTable:
    """Group warnings that differ only in their figures."""
    warnings: dict[str, dict[str, str]] = {}
    for note in results.notes:
        warnings.setdefault(note, {})["the study"] = note
    best = fastest(results.rows)
    for note in explain(best.case).notes:
        warnings.setdefault(_FIGURES.sub("#", note), {})[best.label] = note
    for row in results.rows:
        recorded = (
            in_one_line(text, run.folder / FILE_NAME)
            for run in row.runs
            for text in (*run.record.failures, *run.record.warnings)
        )
        for text in (*row.scaling.notes, *recorded):
            warnings.setdefault(_FIGURES.sub("#", text), {}).setdefault(row.label, text)
    rows = tuple((word(_where(texts)), word(_what(texts))) for texts in warnings.values())
    return PageTable(name="warnings", title="Warnings and notes", headings=("where", "what"), rows=rows)


def _where(texts: dict[str, str]) -> str:
    labels = list(texts)
    return "; ".join(labels) if len(labels) <= _NAMED else f"{len(labels)} settings, first {labels[0]}"


def _what(texts: dict[str, str]) -> str:
    first, *others = dict.fromkeys(texts.values())
    return f"{first} (figures of the first)" if others else first

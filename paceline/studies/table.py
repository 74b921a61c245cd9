"""The table of a study: a row per cell, with what varies, rates relative to the baseline, and chosen columns."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from paceline.measure.families import families
from paceline.measure.scaling import Scaling, ScalingRow, scaling_rows
from paceline.measure.stats import Figure
from paceline.numbers import number, rate
from paceline.record import Record
from paceline.settings import Baseline, Role, as_typed
from paceline.spec import SETTINGS
from paceline.studies.columns import COLUMNS, NOTHING, Value, column
from paceline.studies.definition import Study
from paceline.studies.differences import differences
from paceline.studies.epochs import epochs_of, over_repeats
from paceline.studies.estimate import Span
from paceline.studies.grid import Cell, Grid, differing
from paceline.studies.store import Contents, Store
from paceline.units import human_seconds

NOT_KNOWN = "not known"
"""What is printed instead of a figure that has no interval, or whose interval spans more than 2x."""

IDEAL = "ideal"
"""A column that needs the baseline: the one-worker rate × devices."""

_FIGURES_IN_WORDS = re.compile(r"\d[\d.,]*")
_NAMED_ROWS = 3


FIGURES = ("throughput", "speedup", "efficiency")
"""Columns whose values have intervals."""

CellValue = Value | Figure | Span
"""The value of a row in one column."""


@dataclass(frozen=True)
class StudyRow:
    """One cell and its results."""

    cell: Cell
    records: tuple[Record, ...]
    scaling: ScalingRow | None
    state: str
    """`done`, `2 of 3 repeats`, `failed`, `damaged`, `impossible` or `not run`."""


@dataclass(frozen=True)
class StudyTable:
    """Headings, and for each row a text and a value per heading."""

    title: str
    headings: tuple[str, ...]
    texts: list[tuple[str, ...]]
    values: list[dict[str, CellValue]]
    numeric: tuple[bool, ...]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TableColumn:
    """One column of the table: its name in files, its heading for readers, and its value in each row."""

    name: str
    heading: str
    values: Sequence[CellValue]
    texts: list[str]
    numeric: bool = True


def rows_of(grid: Grid, contents: Contents) -> list[StudyRow]:
    """A row for every cell, in the order of the grid."""
    taken = {cell.key: _records(grid, cell, contents) for cell in grid.cells}
    scaling: Scaling = "strong" if grid.study.scaling == "strong" else "weak"
    rows = scaling_rows([record for records in taken.values() for record in records], scaling=scaling)
    scaled = {id(record): row for row in rows for record in row.records}
    return [
        StudyRow(cell, taken[cell.key], _scaling(scaled, taken[cell.key]), _state(grid, cell, contents))
        for cell in grid.cells
    ]


def _records(grid: Grid, cell: Cell, contents: Contents) -> tuple[Record, ...]:
    return tuple(contents.records[run.key] for run in grid.runs_of(cell) if run.key in contents.records)


def _scaling(scaled: Mapping[int, ScalingRow], records: Sequence[Record]) -> ScalingRow | None:
    return scaled[id(records[0])] if records else None


def _state(grid: Grid, cell: Cell, contents: Contents) -> str:
    runs = grid.runs_of(cell)
    if not runs:
        return "impossible"
    done = sum(run.key in contents.records for run in runs)
    if done == len(runs):
        return "done"
    if done:
        return f"{done} of {len(runs)} repeats"
    for state, keys in (("failed", contents.failures.keys()), ("damaged", contents.damaged.keys())):
        if any(run.key in keys for run in runs):
            return state
    return "not run"


def make_table(grid: Grid, rows: Sequence[StudyRow], contents: Contents) -> StudyTable:
    """The results of all cells as one table."""
    settings = list(_settings(grid, rows))
    always = [*settings, *_results(rows)]
    taken = {*(entry.name for entry in always), *(f"{name}_{end}" for name in FIGURES for end in ("low", "high"))}
    unequal = [grid.study.equal or ""] if any(map(partial(_not_equal, grid.study), rows)) else []
    chosen = [name for name in dict.fromkeys((*grid.study.columns, *unequal)) if name not in taken]
    entries = [*always, *_chosen(chosen, rows)]
    names = [_name(row, settings, index) for index, row in enumerate(rows)]
    found = differences(families([row.scaling for row in rows if row.scaling]), _by_record(rows, settings))
    notes = [*found, *_notes(grid, rows, names, contents), *_unknown(chosen, rows)]
    title = _title(grid.study, rows, {entry.name for entry in entries})
    return _table(title, entries, notes)


def _table(title: str, entries: Sequence[TableColumn], notes: list[str]) -> StudyTable:
    columns = [entry.values for entry in entries]
    return StudyTable(
        title=title,
        headings=tuple(entry.heading for entry in entries),
        texts=list(zip(*(entry.texts for entry in entries), strict=True)),
        values=[dict(zip((e.name for e in entries), row, strict=True)) for row in zip(*columns, strict=True)],
        numeric=tuple(entry.numeric for entry in entries),
        notes=notes,
    )


def _settings(grid: Grid, rows: Sequence[StudyRow]) -> Iterator[TableColumn]:
    """Settings that differ between rows; where every variant has a label, the label replaces its settings."""
    variants = grid.study.variants
    labelled = all(variant.label is not None for variant in variants)
    if labelled:
        labels = [row.cell.label or "baseline" for row in rows]
        yield TableColumn("variant", "variant", labels, labels, numeric=False)
    labels_say = {n for v in variants for n, values in v.axes.items() if len(values) == 1} if labelled else set()
    asked = differing(row.cell for row in rows if not row.cell.added)
    varying = differing(row.cell for row in rows)
    written = [name for _, axes in grid.study.blocks for name in axes]
    batches, rates = _batches(rows), _rates(rows)
    resolved = [
        TableColumn("batch", "batch per worker", batches, [NOTHING if b is None else str(b) for b in batches]),
        TableColumn("lr", "lr", rates, [NOTHING if r is None else f"{r:g}" for r in rates]),
    ]
    plans = {entry.name for entry in resolved}
    for name in sorted(varying, key=lambda name: written.index(name) if name in written else -1):
        ends_a_run = SETTINGS[name].has(Role.LENGTH) or name == "until_percent"
        follows = ends_a_run and grid.study.equal is not None  # from what is equal
        only_baseline = SETTINGS[name].baseline is Baseline.UNUSED and name not in asked
        if name in labels_say or (name == "variant" and labelled) or name in plans or follows or only_baseline:
            continue
        values = [row.cell.setting(name) for row in rows]
        texts = [NOTHING if value is None else str(as_typed(value)) for value in values]
        numeric = all(isinstance(value, int | float | None) for value in values)
        yield TableColumn(name, SETTINGS[name].label, values, texts, numeric)
    for entry in resolved:
        if len({value for value in entry.values if value is not None}) > 1:
            yield entry


def _batches(rows: Sequence[StudyRow]) -> list[int | None]:
    return [row.records[0].batch if row.records else row.cell.setting("batch") for row in rows]


def _rates(rows: Sequence[StudyRow]) -> list[float | None]:
    return [row.records[0].learning.lr if row.records else row.cell.setting("lr") for row in rows]


def grid_table(grid: Grid, rows: Sequence[StudyRow], contents: Contents, expected: Sequence[Span | None]) -> StudyTable:
    """The planned runs, before they start, and damaged ones that will be repeated."""
    settings = list(_settings(grid, rows))
    states = [row.state for row in rows]
    keys = [row.cell.key for row in rows]
    entries = [
        *settings,
        TableColumn("state", "state", states, states, numeric=False),
        TableColumn(
            "expected_seconds",
            "time each",
            list(expected),
            [NOTHING if span is None else str(span) for span in expected],
        ),
        TableColumn("key", "folder in runs/", keys, keys, numeric=False),
    ]
    notes = [f"damaged: {why} It will be moved aside and run again." for why in contents.damaged.values()]
    return _table(_title(grid.study, rows, {e.name for e in entries}), entries, notes)


def _results(rows: Sequence[StudyRow]) -> Iterator[TableColumn]:
    """The columns that every table has."""
    devices = [row.records[0].devices if row.records else None for row in rows]
    yield TableColumn("devices", "devices", devices, [NOTHING if d is None else str(d) for d in devices])
    units = [row.records[0].throughput.unit if row.records else None for row in rows]
    unit = next((u for u in units if u is not None), None)
    alike = len(set(units) - {None}) == 1
    rates = [row.scaling.throughput if row.scaling else None for row in rows]
    texts = [
        row.state if made is None else figure(made, rate) + ("" if alike else f" {u}")
        for row, made, u in zip(rows, rates, units, strict=True)
    ]
    yield TableColumn("throughput", f"{unit} (95 %)" if alike else "throughput (95 %)", rates, texts)
    missing = [NOT_KNOWN if row.scaling and row.scaling.not_known else NOTHING for row in rows]
    speedups = [row.scaling.speedup if row.scaling else None for row in rows]
    texts = [figure(s, lambda x: f"{x:.2f}×", none) for s, none in zip(speedups, missing, strict=True)]
    yield TableColumn("speedup", "speed-up", speedups, texts)
    shares = [row.scaling.efficiency if row.scaling else None for row in rows]
    texts = [figure(share, lambda x: f"{x:.0%}", none) for share, none in zip(shares, missing, strict=True)]
    yield TableColumn("efficiency", "efficiency", shares, texts)


def _chosen(names: Sequence[str], rows: Sequence[StudyRow]) -> Iterator[TableColumn]:
    """The chosen columns."""
    for name in names:
        if name == IDEAL:
            ideals = [row.scaling.ideal if row.scaling else None for row in rows]
            yield TableColumn(name, "ideal", ideals, [NOTHING if i is None else rate(i) for i in ideals])
            continue
        shown = column(name)
        values = [shown.over(row.records) for row in rows]
        yield TableColumn(name, shown.heading, values, [shown.written(value) for value in values])


def figure(value: Figure | None, written: Callable[[float], str], missing: str = NOTHING) -> str:
    """`512 (505–520)`: a value and its 95 % interval, with what makes it doubtful; `missing` where there is none."""
    if value is None:
        return missing
    if not value.known:
        return NOT_KNOWN
    remarks = list(value.marks)
    if value.low is not None and value.high is not None and value.low != value.high and not value.host_limited:
        remarks.insert(0, f"{written(value.low)}–{written(value.high)}")
    return f"{written(value.value)} ({', '.join(remarks)})" if remarks else written(value.value)


def _title(study: Study, rows: Sequence[StudyRow], shown: set[str]) -> str:
    """What all rows share: the workload, weak or strong scaling, batch, learning rate, and timing."""
    parts = [f"{study.name}: {study.scaling} scaling"]
    workloads = dict.fromkeys(str(row.cell.setting("workload")) for row in rows)
    if len(workloads) == 1:
        parts.insert(1, next(iter(workloads)))
    if study.scaling == "strong":
        wholes = dict.fromkeys(str(row.cell.settings["batch"]) for row in rows)
        parts.append(f"batch {' and '.join(wholes)} in total")
    elif "batch" not in shown:
        batch = next((b for b in _batches(rows) if b is not None), None)
        parts.append(f"batch {batch} per worker" if batch is not None else "the workload's own batch per worker")
    if "lr" not in shown:
        lr = next((lr for lr in _rates(rows) if lr is not None), None)
        parts.append(f"lr {lr:g}" if lr is not None else "the workload's own lr")
    rules = dict.fromkeys(str(row.cell.setting("lr_rule") or "none") for row in rows if not row.cell.added)
    parts.append(f"lr rule {' and '.join(rules)}")
    if study.equal is not None:
        parts.append(f"equal {study.equal}" + (f" ({study.samples:,})" if study.samples else ""))
    parts.append("one run each" if study.repeats == 1 else f"{study.repeats} runs each, in turns")
    timings = {str(row.cell.setting("timing")) for row in rows if row.cell.spec is not None} - {"detected"}
    parts.extend(f"timing {timing}, without interval" for timing in sorted(timings))
    return ", ".join(parts)


def _name(row: StudyRow, settings: Sequence[TableColumn], index: int) -> str:
    """The name of a row in notes."""
    words = [f"{e.heading} {e.texts[index]}" if e.numeric else e.texts[index] for e in settings]
    return " · ".join(words) or row.cell.key


def _by_record(rows: Sequence[StudyRow], settings: Sequence[TableColumn]) -> dict[int, str]:
    """The names of rows among those with as many workers, by the identity of their first record."""
    others = [entry for entry in settings if entry.name != "workers"]
    return {id(row.records[0]): _name(row, others, index) for index, row in enumerate(rows) if row.records}


def _notes(grid: Grid, rows: Sequence[StudyRow], names: Sequence[str], contents: Contents) -> list[str]:
    """Failures, and warnings about figures and runs; a note about several rows is printed once."""
    notes: dict[str, dict[str, str]] = {}
    for row, name in zip(rows, names, strict=True):
        warnings = [warning for record in row.records for warning in record.warnings]
        figures = row.scaling.notes if row.scaling else ()
        unequal = filter(None, [_not_equal(grid.study, row)])
        for text in (*_what_went_wrong(grid, row, contents), *unequal, *figures, *warnings):
            notes.setdefault(_FIGURES_IN_WORDS.sub("#", text), {}).setdefault(name, text)
    return [_printed_once(texts, len(rows)) for texts in notes.values()]


def _printed_once(texts: Mapping[str, str], rows: int) -> str:
    """A note, preceded by its rows: a few by name, many by their number."""
    where = "; ".join(texts) if len(texts) <= _NAMED_ROWS else f"{len(texts)} of {rows} rows, first {next(iter(texts))}"
    first, *others = dict.fromkeys(texts.values())
    return f"{where} (figures of the first): {first}" if others else f"{where}: {first}"


def _what_went_wrong(grid: Grid, row: StudyRow, contents: Contents) -> Iterator[str]:
    if row.cell.problem is not None:
        yield f"impossible: {row.cell.problem}"
    for run in grid.runs_of(row.cell):
        if run.key in contents.failures:
            yield f"failed: {contents.failures[run.key].first_line}"
    if row.records and row.state != "done":
        yield f"{row.state} are finished."


def _not_equal(study: Study, row: StudyRow) -> str | None:
    """What should be equal but is not: the size of the data, and so the last batch, is known only in the run."""
    if study.equal is None:
        return None
    asked = study.samples if study.equal == "samples" else row.cell.settings["steps"]
    learned = (record.learning for record in row.records)
    counts = (one.samples_seen if study.equal == "samples" else one.updates for one in learned)
    made = next((made for made in counts if made != asked), None)
    if made is None:
        return None
    if row.cell.setting("until_percent") is not None:
        why = "the run ended when it was precise enough: leave out until_percent"
    else:
        why = (
            "the last batch of an epoch is smaller where the global batch does not divide the data: choose a batch "
            "that does, or a synthetic feed"
        )
    return f"{study.equal} are not equal, {made:,} of {asked:,}; {why}."


def _unknown(names: Sequence[str], rows: Sequence[StudyRow]) -> Iterator[str]:
    """Columns that are not a figure or a metric of any record."""
    metrics = {name for row in rows for r in row.records for v in r.learning.validation for name in v.metrics}
    for name in names:
        if name not in (IDEAL, *COLUMNS, *metrics) and any(row.records for row in rows):
            known = ", ".join((IDEAL, *COLUMNS, *sorted(metrics)))
            more = "" if metrics else "; metrics of the workload need --validate end"
            yield f"The column {name!r} is not in these records: choose from {known}{more}."


def epoch_table(grid: Grid, rows: Sequence[StudyRow], store: Store) -> StudyTable:
    """A row per cell and epoch."""
    settings = list(_settings(grid, rows))
    entries: list[dict[str, CellValue]] = []
    for index, row in enumerate(rows):
        folders = [store.folder_of(run) for run in grid.runs_of(row.cell)]
        epochs = [epochs_of(record, folders[record.spec.turn]) for record in row.records]
        who = {entry.name: entry.values[index] for entry in settings}
        entries.extend({**who, **epoch} for epoch in over_repeats(epochs))
    names = dict.fromkeys(name for entry in entries for name in entry)
    words = {entry.name for entry in settings if not entry.numeric}
    shown = [
        TableColumn(
            name, name if name in COLUMNS else name.replace("_", " "), values, _texts(name, values), name not in words
        )
        for name in names
        for values in [[entry.get(name) for entry in entries]]
    ]
    return _table(f"{grid.study.name}: epoch by epoch, time of training without validation", shown, [])


def _texts(name: str, values: Sequence[CellValue]) -> list[str]:
    written = human_seconds if name == "time" else number
    return [NOTHING if v is None else written(v) if isinstance(v, int | float) else str(v) for v in values]

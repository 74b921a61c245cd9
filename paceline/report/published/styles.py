"""Our results in the layouts of published tables, so that their readers find the same columns."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline import references
from paceline.grammar import choose, parse
from paceline.measure.scaling import ScalingRow
from paceline.numbers import count, rate
from paceline.references.base import PublishedColumn, Reference
from paceline.report.published.fields import (
    FIELDS,
    Field,
    in_minutes,
    in_minutes_and_seconds,
    machine_of,
    networks_of,
    nodes_of,
    seconds,
    seconds_of_steps,
    speedup,
    throughput,
)
from paceline.report.section import Section
from paceline.report.tables import PageTable, TableCell, number, word
from paceline.studies.columns import NOTHING

_ONE_TABLE = ("workload", "strategy", "feed", "precision", "accumulate", "mps")
_NOUNS = re.compile("imgs|images?|words|frames")
_UNKNOWN = TableCell(NOTHING)


def named(style: str) -> str:
    """The style called so; an unknown one is refused with the nearest."""
    return choose(style, _STYLES, "table style")


def tables(style: str, rows: Sequence[ScalingRow]) -> tuple[PageTable, ...]:
    """The rows in a style; what is to be noted is said once."""
    made = _STYLES[named(style)](rows)
    said: set[str] = set()
    found = []
    for index, table in enumerate(made):
        notes = tuple(note for note in table.notes if note not in said)
        said.update(notes)
        found.append(dataclasses.replace(table, name=f"{style}-{index + 1}", notes=notes))
    return tuple(found)


def section(style: str, rows: Sequence[ScalingRow]) -> Section:
    """The same as a part of the report."""
    reference = references.load(named(style))
    return Section(
        name="style",
        title=f"In the layout of {style}",
        words=(f"Our figures in the columns of: {reference.source}",),
        tables=tables(style, rows),
    )


@dataclass(frozen=True)
class Listed:
    """A line per setting, a table per workload, strategy and feed: the columns that a reference lists."""

    name: str
    seconds: Field
    """What this report calls time."""

    def __call__(self, rows: Sequence[ScalingRow]) -> list[PageTable]:
        """The tables."""
        reference = references.load(self.name)
        return [self._table(group, reference) for group in _grouped(rows, _ONE_TABLE)]

    def _table(self, rows: Sequence[ScalingRow], reference: Reference) -> PageTable:
        columns = reference.columns
        shown = {column.field for column in columns}
        fields = {**FIELDS, "seconds": self.seconds}
        return PageTable(
            name=self.name,
            title=_title(rows, ("workload", "strategy", "feed")),
            headings=tuple(_heading(column, rows) for column in columns),
            rows=tuple(tuple(fields[column.field](row) for column in columns) for row in rows),
            notes=(
                *_about_devices(rows),
                *([] if "devices" in shown else _about_counts(rows)),
                *_about_speedups(rows, shown, reference),
            ),
        )


def _heading(column: PublishedColumn, rows: Sequence[ScalingRow]) -> str:
    """As in the original, except that it names what our workload counts."""
    noun = rows[0].records[0].workload["unit"]
    theirs = _NOUNS.search(column.heading)
    if column.field not in ("throughput", "samples") or theirs is None or theirs[0][:2] == noun[:2]:
        return column.heading
    return column.heading.replace(theirs[0], noun if column.field == "throughput" else "samples")


def _grouped(rows: Sequence[ScalingRow], settings: Sequence[str]) -> list[list[ScalingRow]]:
    """Rows that may stand in one table, in order of first appearance; within it as people count."""
    groups: dict[tuple[Any, ...], list[ScalingRow]] = {}
    for row in rows:
        spec = row.records[0].spec
        batch = spec["batch"] * (spec["workers"] if row.scaling == "strong" else 1)
        groups.setdefault((*(spec.get(name) for name in settings), batch), []).append(row)
    return [sorted(group, key=_place) for group in groups.values()]


def _place(row: ScalingRow) -> tuple[int, int]:
    spec = row.records[0].spec
    return spec["workers_per_device"], spec["workers"]


def _title(rows: Sequence[ScalingRow], settings: Sequence[str]) -> str:
    """What all rows share; weak or strong, batch and learning rate are always there."""
    first = rows[0].records[0].spec
    precision = [first["precision"]] if first["precision"] != "fp32" else []
    named = " · ".join(str(first[name]) for name in settings)
    return ", ".join([named, _scaling(rows), *precision, _learning_rates(rows)])


def _scaling(rows: Sequence[ScalingRow]) -> str:
    first = rows[0].records[0].spec
    if any(row.scaling == "strong" for row in rows):
        return f"strong scaling, batch {first['batch'] * first['workers']} in all"
    return f"weak scaling, batch {first['batch']} per worker"


def _learning_rates(rows: Sequence[ScalingRow]) -> str:
    learning = [record.learning for row in rows for record in row.records]
    rates = sorted({told["lr"] for told in learning})
    rules = dict.fromkeys(told["lr_rule"] for told in learning)
    return f"lr {' to '.join(f'{lr:g}' for lr in dict.fromkeys((rates[0], rates[-1])))}, lr rule {' and '.join(rules)}"


def _about_devices(rows: Sequence[ScalingRow]) -> list[str]:
    """What a column called GPU holds."""
    first = rows[0].records[0]
    if first.environment["device_kind"] != "cpu":
        return []
    return [f"A GPU stands for a device: here {count(first.spec['cores_per_device'], 'core')}."]


def _about_counts(rows: Sequence[ScalingRow]) -> list[str]:
    """Where workers share devices, or servers have some of their own."""
    runs = [row.records[0] for row in rows if row.records[0].devices != row.records[0].spec["workers"]]
    told = dict.fromkeys(f"{run.spec['workers']} on {run.devices}" for run in runs)
    return [f"There are not as many devices as workers; workers on devices: {', '.join(told)}."] if told else []


def _about_speedups(rows: Sequence[ScalingRow], shown: set[str], reference: Reference) -> list[str]:
    if "speedup" not in shown or not any(row.baseline for row in rows):
        return []
    return [
        f"Speed-ups are against one worker alone on one device, without exchange; the original's: {reference.baseline}."
    ]


_PLACES = {"device": "GPU", "host": "CPU", "python": "Python"}


def _by_feed(rows: Sequence[ScalingRow]) -> list[PageTable]:
    """A line per count of workers, feeds across: those that make images in three places in one column."""
    shared = [name for name in _ONE_TABLE if name != "feed"]
    return [_feeds_across(group) for group in _grouped(rows, shared)]


def _feeds_across(rows: Sequence[ScalingRow]) -> PageTable:
    lines: dict[tuple[int, int], dict[str, ScalingRow]] = {}
    for row in rows:
        lines.setdefault(_place(row), {})[_made_at(row)] = row
    feeds = dict.fromkeys(_made_at(row) for row in rows)
    synthetic = any(place in feeds for place in _PLACES)
    others = [feed for feed in feeds if feed not in _PLACES]
    cells = [
        (
            number(workers),
            *([word("/".join(_rate(line.get(place)) for place in _PLACES))] if synthetic else []),
            *(throughput(line[feed]) if feed in line else _UNKNOWN for feed in others),
        )
        for (_, workers), line in lines.items()
    ]
    about = (
        "GPU, CPU, Python: batches are made on the device, on the host, or in Python by other processes; no intervals."
    )
    theirs = "The original's column of another program, tensorflow/benchmarks, is not measured here."
    return PageTable(
        name="",
        title=f"{rows[0].records[0].throughput['unit']}: {_title(rows, ('workload', 'strategy'))}",
        headings=(
            "#GPU",
            *([f"paceline({'/'.join(_PLACES.values())})"] if synthetic else []),
            *(f"paceline({feed})" for feed in others),
        ),
        rows=tuple(cells),
        notes=(*([about] if synthetic else []), theirs, *_about_devices(rows), *_about_counts(rows)),
    )


def _made_at(row: ScalingRow) -> str:
    """Where a synthetic feed makes its batches, or the feed."""
    feed = parse(row.records[0].spec["feed"], "feed")
    return feed.options.get("at", "device") if feed.name == "synthetic" else str(feed)


def _rate(row: ScalingRow | None) -> str:
    return NOTHING if row is None else rate(row.throughput.value)


def _by_workload(rows: Sequence[ScalingRow]) -> list[PageTable]:
    """The machines, their versions, one worker alone on each, and workloads against counts of workers."""
    shared = [name for name in _ONE_TABLE if name != "workload"]
    groups: dict[tuple[Any, ...], list[ScalingRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.records[0].spec.get(name) for name in shared), []).append(row)
    results = [_counts_across(group) for group in groups.values() if any(map(_many, group))]
    return [_testbed(rows), _versions(rows), *_baselines(rows), *results]


def _many(row: ScalingRow) -> bool:
    return bool(row.records[0].spec["workers"] > 1)


def _testbed(rows: Sequence[ScalingRow]) -> PageTable:
    machines = {machine_of(row.records[0]): row.records[0] for row in rows}
    networks = networks_of(row.records[0] for row in rows)
    bandwidth = word(", ".join(networks)) if networks else _UNKNOWN
    kinds = [str(record.environment.get("processor") or NOTHING) for record in machines.values()]
    return PageTable(
        name="",
        title="TestBed",
        headings=("Name", "GPU", "Bandwidth"),
        rows=tuple((word(machine), word(kind), bandwidth) for machine, kind in zip(machines, kinds, strict=True)),
        notes=(*_about_devices(rows), *_about_links(networks)),
    )


def _about_links(networks: Sequence[str]) -> Sequence[str]:
    if not networks:
        return ("The bandwidth between nodes is not measured in these runs.",)
    return ("Nodes are hosts of a testbed on the machine; the records say what their links were measured at.",)


def _versions(rows: Sequence[ScalingRow]) -> PageTable:
    machines = {machine_of(row.records[0]): row.records[0].environment["versions"] for row in rows}
    programs = tuple(dict.fromkeys(name for versions in machines.values() for name in versions))
    lines = [
        (
            word("Version" if len(machines) == 1 else f"Version on {machine}"),
            *(word(v.get(p, NOTHING)) for p in programs),
        )
        for machine, v in machines.items()
    ]
    return PageTable(name="", title="Versions", headings=("", *programs), rows=tuple(lines))


def _baselines(rows: Sequence[ScalingRow]) -> list[PageTable]:
    """What speed-ups are against: machines down, workloads across."""
    alone: dict[str, dict[str, ScalingRow]] = {}
    for row in rows:
        if row.baseline == row.records:
            alone.setdefault(machine_of(row.records[0]), {})[_baseline_heading(row)] = row
    if not alone:
        return []
    headings = tuple(dict.fromkeys(name for found in alone.values() for name in found))
    lines = [
        (word(m), *(throughput(found[h]) if h in found else _UNKNOWN for h in headings)) for m, found in alone.items()
    ]
    title = "Baseline: one worker alone on one device"
    return [PageTable(name="", title=title, headings=("", *headings), rows=tuple(lines))]


def _baseline_heading(row: ScalingRow) -> str:
    record = row.records[0]
    spec = record.spec
    return f"{spec['workload']}, {spec['feed']}, batch {spec['batch']} ({record.throughput['unit']})"


def _counts_across(rows: Sequence[ScalingRow]) -> PageTable:
    lines = _grouped(rows, _ONE_TABLE)
    places = sorted({_place(row) for row in rows if _many(row)})
    headings, cells = [""], [[word(_line_name(group))] for group in lines]
    for place in places:
        found = [next((row for row in group if _place(row) == place), None) for group in lines]
        called = next(_count(row) for row in found if row is not None)
        headings += [f"Throughput ({called})", "Scalability (x)"]
        for line, row in zip(cells, found, strict=True):
            line += [_UNKNOWN, _UNKNOWN] if row is None else [throughput(row), speedup(row, "x")]
    first = rows[0].records[0].spec
    return PageTable(
        name="",
        title=f"{first['strategy']} · {first['feed']}, {_learning_rates(rows)}",
        headings=tuple(headings),
        rows=tuple(map(tuple, cells)),
        notes=tuple(_about_counts(rows)),
    )


def _line_name(rows: Sequence[ScalingRow]) -> str:
    first = rows[0].records[0]
    return f"{first.spec['workload']}, {_scaling(rows)} ({first.throughput['unit']})"


def _count(row: ScalingRow) -> str:
    """`12 nodes`, as the original calls workers of which each had a node to itself."""
    spec, nodes = row.records[0].spec, nodes_of(row.records[0])
    if nodes == spec["workers"]:
        return f"{nodes} nodes"
    shared = f", {spec['workers_per_device']} per device" if spec["workers_per_device"] > 1 else ""
    return f"{spec['workers']} workers{shared}"


_STYLES: Mapping[str, Callable[[Sequence[ScalingRow]], list[PageTable]]] = {
    "seed-000": Listed("seed-000", seconds(in_minutes_and_seconds)),
    "seed-001": Listed("seed-001", seconds(in_minutes)),
    "seed-002": Listed("seed-002", seconds_of_steps(20)),
    "seed-003": _by_feed,
    "seed-004": _by_workload,
}

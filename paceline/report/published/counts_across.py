"""The layout of seed-004: machines, versions, one worker alone, and workloads against worker counts."""

from collections.abc import Sequence

from paceline.measure.scaling import ScalingRow
from paceline.numbers import count
from paceline.report.published.fields import machine_of, networks_of, nodes_of, speedup, throughput
from paceline.report.published.grouped import (
    UNKNOWN,
    about_counts,
    about_devices,
    grouped,
    learning_rates,
    of_one_table,
    place_of,
    scaling_and_batch,
    unusual,
)
from paceline.report.tables import PageTable, word
from paceline.studies.columns import NOTHING


def by_workload(rows: Sequence[ScalingRow]) -> list[PageTable]:
    """The machines, their versions, one worker alone on each, and workloads against worker counts."""
    groups: dict[tuple[object, ...], list[ScalingRow]] = {}
    for row in rows:
        groups.setdefault(of_one_table(row, across="workload"), []).append(row)
    results = [_counts_across(group) for group in groups.values() if any(map(_many, group))]
    return [_testbed(rows), _versions(rows), *_baselines(rows), *results]


def _many(row: ScalingRow) -> bool:
    return row.records[0].spec.workers > 1


def _testbed(rows: Sequence[ScalingRow]) -> PageTable:
    machines = {machine_of(row.records[0]): row.records[0] for row in rows}
    networks = networks_of(row.records[0] for row in rows)
    bandwidth = word(", ".join(networks)) if networks else UNKNOWN
    kinds = [record.environment.processor for record in machines.values()]
    return PageTable(
        name="",
        title="TestBed",
        headings=("Name", "GPU", "Bandwidth"),
        rows=tuple((word(machine), word(kind), bandwidth) for machine, kind in zip(machines, kinds, strict=True)),
        notes=(*about_devices(rows), *_about_links(networks)),
    )


def _about_links(networks: Sequence[str]) -> Sequence[str]:
    if not networks:
        return ("These runs did not measure the bandwidth between nodes.",)
    return ("Nodes are hosts of a testbed on one machine; the records hold the measured rates of their links.",)


def _versions(rows: Sequence[ScalingRow]) -> PageTable:
    machines = {machine_of(row.records[0]): row.records[0].environment.versions for row in rows}
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
    """One worker alone, the baseline of speed-ups: a row per machine, a column per workload."""
    alone: dict[str, dict[str, ScalingRow]] = {}
    for row in rows:
        if row.baseline == row.records:
            alone.setdefault(machine_of(row.records[0]), {})[_baseline_heading(row)] = row
    if not alone:
        return []
    headings = tuple(dict.fromkeys(name for by_heading in alone.values() for name in by_heading))
    lines = [
        (word(machine), *(throughput(own[h]) if h in own else UNKNOWN for h in headings))
        for machine, own in alone.items()
    ]
    title = "Baseline: one worker alone on one device"
    return [PageTable(name="", title=title, headings=("", *headings), rows=tuple(lines))]


def _baseline_heading(row: ScalingRow) -> str:
    record = row.records[0]
    spec = record.spec
    words = [spec.workload, spec.feed, f"batch {record.batch}", *unusual(row)]
    return f"{', '.join(words)} ({record.throughput.unit})"


def _counts_across(rows: Sequence[ScalingRow]) -> PageTable:
    lines = grouped(rows)
    places = sorted({place_of(row) for row in rows if _many(row)})
    headings, cells = [""], [[word(_line_name(group))] for group in lines]
    for place in places:
        column = [next((row for row in group if place_of(row) == place), None) for group in lines]
        called = next(_count(row) for row in column if row is not None)
        headings += [f"Throughput ({called})", "Scalability (x)"]
        for line, row in zip(cells, column, strict=True):
            line += [UNKNOWN, UNKNOWN] if row is None else [throughput(row), speedup(row, "x")]
    first = rows[0].records[0].spec
    return PageTable(
        name="",
        title=", ".join([f"{first.strategy} · {first.feed}", *unusual(rows[0]), learning_rates(rows)]),
        headings=tuple(headings),
        rows=tuple(map(tuple, cells)),
        notes=tuple(about_counts(rows)),
    )


def _line_name(rows: Sequence[ScalingRow]) -> str:
    first = rows[0].records[0]
    return f"{first.spec.workload}, {scaling_and_batch(rows)} ({first.throughput.unit})"


def _count(row: ScalingRow) -> str:
    """The heading of a count: `12 nodes` where every worker had a node to itself, as in the original."""
    spec, nodes = row.records[0].spec, nodes_of(row.records[0])
    if nodes == spec.workers:
        return count(nodes, "node")
    shared = f", {spec.workers_per_device} per device" if spec.workers_per_device > 1 else ""
    return f"{count(spec.workers, 'worker')}{shared}"

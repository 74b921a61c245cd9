"""Tables whose largest rows are hidden and projected from the rest: references, recent clusters, and Pollux."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np

from paceline import references
from paceline.errors import DataError
from paceline.project.laws.table import ScalingTable, from_series, settings_of
from paceline.references import spreadsheet
from paceline.references.base import Row, Series

RECENT, ONE_ROW = "gpu-tables", "one row on two nodes"
"""Sources that the page shows apart."""

_POLLUX_CUTS = (16, 4)
_DATED = re.compile(r".*-(?P<cluster>[a-z]+)-\d{4}-\d\d-\d\d")
# Workers and nodes: what is known with one row on two nodes, and the questions.
_ONE_ROW = {(1, 1), (2, 1), (4, 1), (8, 2)}
_FULL_NODES = {(16, 4), (32, 8), (64, 16)}
_DOUBLING = 2
_LEAST_COUNTS = 3


@dataclass(frozen=True, eq=False)
class HeldOutTable:
    """A table in two parts: rows to fit, and the largest rows, which are hidden."""

    source: str
    label: str
    known: ScalingTable
    hidden: ScalingTable
    of_steps: bool
    """Whether errors are of step time; otherwise they are of throughput."""

    cluster: str | None = None
    """The kind of cluster, which can be left out when priors are chosen; None where it may not."""

    workload: str | None = None


def cases() -> Iterator[HeldOutTable]:
    """All held-out tables that are available on this machine."""
    for name in references.names():
        for series in references.load(name).series:
            yield from _of_series(name, series)
    folder = Path(os.environ.get("PACELINE_DATA", "data"))
    yield from gpu_tables(folder / "gpu-tables")
    yield from pollux(folder / "pollux")
    yield from one_row_on_two_nodes(folder / "pollux")


def _of_series(name: str, series: Series) -> Iterator[HeldOutTable]:
    """One case per number of workers on a device, where it has at least three counts."""
    rows = [row for row in series.rows if row.workers and series.rate(row) and row.machine in _machines(series)]
    for per_device, same in groupby(sorted(rows, key=_per_device), key=_per_device):
        label = series.label if per_device == 1 else f"{series.label}, {per_device} per device"
        if case := _split(name, label, replace(series, rows=tuple(same))):
            yield case


def _machines(series: Series) -> tuple[str | None, ...]:
    """Machines whose rows are kept: the baseline's, and rows that name no machine."""
    return (None, series.method.baseline_machine)


def _per_device(row: Row) -> int:
    return row.workers_per_device or 1


def _split(name: str, label: str, series: Series) -> HeldOutTable | None:
    """Keep counts that at least double and hide the largest; keep all counts where too few remain."""
    counts = sorted({row.workers for row in series.rows if row.workers})
    doubling: list[int] = []
    for count in counts:
        if not doubling or count >= _DOUBLING * doubling[-1]:
            doubling.append(count)
    used = doubling if len(doubling) >= _LEAST_COUNTS else counts
    if len(used) < _LEAST_COUNTS:
        return None
    whole = from_series(label, series)
    known = whole.where(np.isin(whole.at.workers, used[:-1]))
    return HeldOutTable(name, label, known, whole.where(whole.at.workers == used[-1]), of_steps=False)


def gpu_tables(folder: Path) -> Iterator[HeldOutTable]:
    """Tables of recent GPU clusters with their largest count hidden; empty where the folder is missing."""
    for path in sorted(folder.glob("*.csv")):
        for series in spreadsheet.read(path).series:
            whole = from_series(path.stem, series)
            small = whole.at.workers < whole.counts[-1]
            if len(whole.counts) >= _LEAST_COUNTS:
                cluster, workload = _kind(path.stem)
                known, hidden = whole.where(small), whole.where(~small)
                yield HeldOutTable(RECENT, path.stem, known, hidden, False, cluster, workload)


def _kind(name: str) -> tuple[str, str]:
    """Cluster and workload of csc-ddp-synthetic-puhti-2024-02-29 (cluster, date) or foundry-a100-40-7b-full_shard."""
    if dated := _DATED.fullmatch(name):
        return dated["cluster"], "GPT fine-tune" if "run_clm" in name else "ResNet-50"
    return "-".join(name.split("-")[:3]), "sharded GPT"


def one_row_on_two_nodes(folder: Path) -> Iterator[HeldOutTable]:
    """Pollux's models at each batch: up to one row on two nodes is known, and full nodes of four are hidden."""
    for model in sorted(path.parent for path in folder.glob("*/placements.csv")):
        whole = _pollux_table(model)
        assert whole.at.nodes is not None, "Pollux gives nodes"
        assert whole.at.batch is not None, "Pollux gives batches"
        places = list(zip(whole.at.workers, whole.at.nodes, strict=True))
        known, hidden = (np.array([place in chosen for place in places]) for chosen in (_ONE_ROW, _FULL_NODES))
        for batch in np.unique(whole.at.batch):
            here = whole.at.batch == batch
            if len(set(np.flatnonzero(known & here))) < len(_ONE_ROW) or not (hidden & here).any():
                continue
            table = replace(whole.where(known & here), sync_seconds=None)
            asked = whole.where(hidden & here)
            yield HeldOutTable(ONE_ROW, f"{model.name}, batch {batch:g}", table, asked, of_steps=True)


def pollux(folder: Path) -> Iterator[HeldOutTable]:
    """Step times of three models on 1–64 GPUs, fitted up to 16 and up to 4; empty where the folder is missing."""
    for model in sorted(path.parent for path in folder.glob("*/placements.csv")):
        whole = _pollux_table(model)
        for cut in _POLLUX_CUTS:
            small = whole.at.workers <= cut
            yield HeldOutTable(
                "pollux", f"{model.name}, up to {cut}", whole.where(small), whole.where(~small), of_steps=True
            )


def _pollux_table(model: Path) -> ScalingTable:
    rows: list[tuple[float, ...]] = []
    for name in ("placements.csv", "scalability.csv"):
        try:
            with (model / name).open(newline="") as file:
                rows += [_pollux_row(row) for row in csv.DictReader(file)]
        except (OSError, KeyError, ValueError) as error:
            raise DataError(
                f"{model / name} does not have the format that Pollux publishes ({error}): put the original file there."
            ) from error
    workers, nodes, batch, seconds, sync = np.array(sorted(rows)).T
    return ScalingTable(model.name, settings_of(workers, nodes, batch), seconds, True, 1.0, "samples/s", (), sync)


def _pollux_row(row: dict[str, str]) -> tuple[float, ...]:
    """`placement` 224 is 2 + 2 + 4 workers on three nodes."""
    if "placement" in row:
        digits: Sequence[int] = [int(digit) for digit in row["placement"]]
        workers, nodes = sum(digits), len(digits)
    else:
        workers, nodes = int(row["num_replicas"]), int(row["num_nodes"])
    return workers, nodes, float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"])

"""The requested points: worker counts as a range or a list, or rows of a file."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from paceline.errors import DataError, SpecError
from paceline.project.curve import Point
from paceline.references.headings import read_heading
from paceline.references.spreadsheet import Line, lines_of

_Number = TypeVar("_Number", int, float)

_MOST = 100_000
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def parse_workers(text: str) -> list[int]:
    """`1..64`, `1,2,4` or `8`; ranges and single counts may be mixed."""
    counts: list[int] = []
    for part in text.split(","):
        if match := _RANGE.fullmatch(part.strip()):
            first, last = int(match[1]), int(match[2])
            if not 1 <= first <= last or last - first >= _MOST:
                raise SpecError(
                    f"--workers {part} is not valid: a range ascends from 1 or more, over at most {_MOST:,} counts."
                )
            counts += range(first, last + 1)
        elif part.strip().isdecimal() and int(part) >= 1:
            counts.append(int(part))
        else:
            raise SpecError(f"--workers {part.strip()!r} is not valid: write a range or a list, as in 1..64 or 1,2,4.")
    return counts


def on_nodes(workers: list[int], workers_per_node: int | None, batch: float | None) -> list[Point]:
    """A point per count, with the number of nodes that the workers fill."""
    if workers_per_node is not None and workers_per_node < 1:
        raise SpecError(f"--workers-per-node {workers_per_node} is not valid: it must be at least 1.")
    if batch is not None and not 0 < batch < math.inf:
        raise SpecError(f"--batch {batch:g} is not valid: it must be a number above 0.")
    return [Point(n, None if workers_per_node is None else -(-n // workers_per_node), batch) for n in workers]


def read_points(path: Path) -> list[Point]:
    """Read the column `workers` and, if present, `nodes` and `batch`, as in tables; keep the file's order."""
    first, *rows = lines_of(path) or [Line(1, [])]
    fields = [read_heading(cell).field for cell in first.cells]
    if "workers" not in fields:  # as in a table, where every worker has a device
        fields = ["workers" if field == "devices" else field for field in fields]
    if "workers" not in fields or not rows:
        raise DataError(f"{path} has no points: write a heading `workers` (also nodes, batch) and a line per point.")
    lines = ((line.number, dict(zip(fields, line.cells, strict=False))) for line in rows)
    return [_point(f"{path}, line {number}", cells) for number, cells in lines]


def _point(where: str, cells: Mapping[str | None, str]) -> Point:
    workers = _read(where, "workers", cells.get("workers", ""), int)
    if workers is None:
        raise DataError(f"{where}: workers is empty: give it in every row.")
    nodes = _read(where, "nodes", cells.get("nodes", ""), int)
    if nodes is not None and nodes > workers:
        raise DataError(f"{where}: {nodes} nodes for {workers} workers is not valid: every node needs a worker.")
    return Point(workers, nodes, _read(where, "batch", cells.get("batch", ""), float))


def _read(where: str, name: str, cell: str, kind: Callable[[str], _Number]) -> _Number | None:
    if not cell:
        return None
    try:
        value = kind(cell)
    except ValueError:
        value = kind("0")
    if not 0 < value < float("inf"):
        raise DataError(
            f"{where}: {name} {cell!r} is not valid: it must be a {'whole ' if kind is int else ''}number above 0."
        )
    return value

"""A curve in words, as a table and as data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paceline.numbers import count, significant
from paceline.project.curve import Projected, ProjectedCurve
from paceline.units import human_seconds

_ROWS = 24


def data(curve: ProjectedCurve) -> dict[str, Any]:
    """The object that `--json` prints."""
    return {
        "law": curve.law,
        "curve": [_flat(p) for p in curve.points],
        "knee_workers": curve.knee_workers,
        "weak_doublings": [list(stretch) for stretch in curve.weak_doublings],
        "validated_on": curve.validated_on,
        "warnings": list(curve.warnings),
    }


def _flat(projected: Projected) -> dict[str, Any]:
    """A point and its answer, as one object."""
    answer = asdict(projected)
    return {**answer.pop("point"), **answer}


def sentences(curve: ProjectedCurve, unit: str) -> list[str]:
    """The answer in a few sentences: the most workers, the limit there, and the knee."""
    last = max(curve.points, key=lambda p: p.point.workers)
    lines = []
    many = count(last.point.workers, "worker")
    if last.throughput is not None:
        lines.append(
            f"{many} would reach {number(last.throughput)} {unit} "
            f"(80 %: {number(last.low80)} to {number(last.high80)}; "
            f"95 %: {number(last.low95)} to {number(last.high95)})."
        )
    elif last.step_seconds is not None:
        lines.append(f"A step of {many} would take {human_seconds(last.step_seconds)}.")
    lines.append(f"The limit there is {last.limit}.")
    knee = curve.knee_workers
    if knee is None:
        lines.append("No knee in range: doubling the workers still adds at least 50 %.")
    else:
        lines.append(f"The knee is at {count(knee, 'worker')}: doubling the workers adds less than 50 %.")
    if curve.weak_doublings:
        weak = " and ".join(
            count(first, "worker") if first == last else f"{first:,} to {last:,} workers"
            for first, last in curve.weak_doublings
        )
        lines.append(f"The curve is not concave: doubling {weak} adds less than 50 %, and later doublings add more.")
    return lines


def columns(points: Sequence[Projected], more: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Cells by heading, without columns that are unknown at every point.

    A long range of counts is reduced to doublings and its last point; points of a list or file are all kept.
    """
    cells_by_heading: dict[str, Sequence[str]] = {
        "workers": [str(p.point.workers) for p in points],
        "nodes": [number(p.point.nodes) for p in points],
        "batch": [number(p.point.batch) for p in points],
        "throughput": [number(p.throughput) for p in points],
        "80 % band": [band(p.low80, p.high80) for p in points],
        "95 % band": [band(p.low95, p.high95) for p in points],
        "step": ["" if p.step_seconds is None else human_seconds(p.step_seconds) for p in points],
        "limit": [p.limit for p in points],
        **more,
    }
    kept = shown(points)
    return {heading: [cells[index] for index in kept] for heading, cells in cells_by_heading.items() if any(cells)}


def shown(points: Sequence[Projected], most: int = _ROWS) -> list[int]:
    """Indices of the points to print: all of them, except that a long range is reduced to doublings and its last."""
    counts = [point.point.workers for point in points]
    if len(points) <= most or counts != list(range(counts[0], counts[0] + len(counts))):
        return list(range(len(points)))
    kept, next_count = [], 1
    for index, count_here in enumerate(counts):
        if count_here >= next_count or index == len(points) - 1:
            kept.append(index)
            next_count = 2 * count_here
    return kept


def about_table(points: Sequence[Projected]) -> list[str]:
    """Where the table leaves points out, how many there are and where the rest is."""
    kept = len(shown(points))
    return [f"The table shows {kept} of {len(points):,} points: --json has all."] if kept < len(points) else []


def band(low: float | None, high: float | None) -> str:
    """A band as `80 to 120`, which a narrow page may break at its spaces; empty where it is unknown."""
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def odds(chance: float) -> str:
    """`0.634` → `63 %`; nothing is impossible or certain."""
    return "less than 1 %" if chance < 0.01 else "more than 99 %" if chance > 0.99 else f"{chance * 100:.0f} %"


def number(value: float | None) -> str:
    """A figure with four significant digits; a projection is not more precise."""
    return "" if value is None else significant(value)

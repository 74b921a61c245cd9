"""A curve in words, as a table and as data."""

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.project.curve import Curve, Projected

_DIGITS = 4
_ROWS = 24


def data(curve: Curve) -> dict[str, Any]:
    """What `--json` prints."""
    points = [
        {
            "workers": p.point.workers,
            "nodes": p.point.nodes,
            "batch": p.point.batch,
            "throughput": p.throughput,
            "step_seconds": p.step_seconds,
            "low80": p.low80,
            "high80": p.high80,
            "low95": p.low95,
            "high95": p.high95,
            "limit": p.limit,
        }
        for p in curve.points
    ]
    return {
        "law": curve.law,
        "curve": points,
        "knee_workers": curve.knee_workers,
        "validated_on": curve.validated_on,
        "warnings": list(curve.warnings),
    }


def sentences(curve: Curve, unit: str | None) -> list[str]:
    """The answer in words."""
    last = max(curve.points, key=lambda p: p.point.workers)
    found = []
    if last.throughput is not None:
        found.append(
            f"{last.point.workers} workers would reach {number(last.throughput)} {unit or 'units/s'} "
            f"(80 %: {number(last.low80)} to {number(last.high80)}; "
            f"95 %: {number(last.low95)} to {number(last.high95)})."
        )
    elif last.step_seconds is not None:
        found.append(f"A step of {last.point.workers} workers would take {number(last.step_seconds)} s.")
    found.append(f"There the limit is {last.limit}.")
    knee = curve.knee_workers
    if knee is None:
        found.append("No knee up to there: a doubling of workers still brings at least half of what it could.")
    else:
        found.append(f"The knee is at {knee} workers: twice as many bring less than half of what they could.")
    return found


def rows(points: Sequence[Projected], more: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells; of a long range doublings and the last, so that it fits on a page."""
    headings = ["workers", "nodes", "batch", "throughput", "80 % band", "95 % band", "step", "limit", *more]
    lines = []
    for index in shown(points):
        p = points[index]
        lines.append(
            [
                str(p.point.workers),
                number(p.point.nodes),
                number(p.point.batch),
                number(p.throughput),
                f"{number(p.low80)}–{number(p.high80)}",
                f"{number(p.low95)}–{number(p.high95)}",
                number(p.step_seconds),
                p.limit,
                *(cells[index] for cells in more.values()),
            ]
        )
    return headings, lines


def shown(points: Sequence[Projected]) -> list[int]:
    """Which points a page has room for."""
    if len(points) <= _ROWS:
        return list(range(len(points)))
    found, next_count = [], 1
    for index, p in enumerate(points):
        if p.point.workers >= next_count or index == len(points) - 1:
            found.append(index)
            next_count = 2 * p.point.workers
    return found


def number(value: float | None) -> str:
    """With as many digits as a projection deserves."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 10 ** (_DIGITS - 1) else f"{value:.{_DIGITS}g}"

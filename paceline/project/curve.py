"""A projected curve: the requested points, the answer at each, its knee, and the limits of extrapolation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.errors import SpecError

_BATCH_REACH = 32
"""The largest factor by which a requested batch may be above or below the measured batches."""

_SAME_WHOLE = 0.02

REACH = 1024
"""The largest multiple of the measured worker count that may be requested."""

KNEE_GAIN = 1.5
"""The throughput ratio when doubling the workers adds 50 %."""

_ONE_BY_ONE, _PER_DOUBLING = 16, 8
"""The knee search tries every count up to the first number, then the second number of counts per doubling."""


@dataclass(frozen=True)
class Point:
    """One requested point."""

    workers: int
    nodes: int | None = None
    """Nodes; None where the source does not distinguish one node from several."""

    batch: float | None = None
    """Samples per worker and update; None where the source does not give it."""


@dataclass(frozen=True)
class Projected:
    """The answer at one point. Bands are in the unit of the throughput; None means unknown."""

    point: Point
    throughput: float | None
    step_seconds: float | None
    low80: float | None
    high80: float | None
    low95: float | None
    high95: float | None
    limit: str
    """What takes the largest part of the step: "compute", "latency", "bandwidth between nodes" …"""


@dataclass(frozen=True)
class ProjectedCurve:
    """A projection; its points are in the order in which they were requested."""

    law: str
    points: tuple[Projected, ...]
    knee_workers: int | None
    """The first count at which doubling the workers adds less than 50 %; None where there is none in the range."""

    validated_on: str
    warnings: tuple[str, ...]


def knee(throughput: Callable[[Sequence[int]], Sequence[float]], most: int) -> int | None:
    """The first count, up to `most`, at which doubling the workers adds less than 50 %; None where there is none.

    `throughput` gives the rates at several counts. Beyond 16 workers the search is coarse, then bisects.
    """

    def pay(counts: Sequence[int]) -> list[bool]:
        rates = throughput([*counts, *(2 * count for count in counts)])
        return [rates[len(counts) + i] >= KNEE_GAIN * rates[i] for i in range(len(counts))]

    last = 0  # the largest count whose doubling is known to pay
    for counts in _octaves(most):
        for count, pays in zip(counts, pay(counts), strict=True):
            if pays:
                last = count
                continue
            while count - last > 1:
                middle = (last + count) // 2
                last, count = (middle, count) if pay([middle])[0] else (last, middle)
            return count
    return None


def _octaves(most: int) -> Iterator[list[int]]:
    """Counts from 1 to `most` in order, in groups that each reach to twice the one before."""
    first = 1
    while first <= most:
        step = max(1.0, first / _PER_DOUBLING) if first >= _ONE_BY_ONE else 1.0
        last = min(2 * first, most + 1)
        yield sorted({int(first + i * step) for i in range(int((last - 1 - first) / step) + 1)} | {last - 1})
        first *= 2


def require_within_reach(points: Sequence[Point], measured: int, basis: str, reach: int = REACH) -> None:
    """Refuse counts far beyond the measured workers; `basis` names the data that the projection is based on."""
    most = max(point.workers for point in points)
    if most > reach * measured:
        raise SpecError(
            f"{most} workers are more than {reach} times the measured {measured}, too far to project from {basis}: "
            f"request at most {reach * measured}, or measure more workers."
        )


def far_beyond(points: Sequence[Point], measured: int, far: int) -> list[str]:
    """Warn where a requested count is more than `far` times the measured workers."""
    most = max(point.workers for point in points)
    if most <= far * measured:
        return []
    return [f"{most} workers are {most / measured:.0f} times as many as were measured: rely on the band."]


def require_near_batches(points: Sequence[Point], smallest: float, largest: float) -> None:
    """Refuse batches that are far from every measured batch."""
    for batch in (point.batch for point in points if point.batch is not None):
        if not smallest / _BATCH_REACH <= batch <= largest * _BATCH_REACH:
            measured = f"{smallest:g}" if smallest == largest else f"{smallest:g} to {largest:g}"
            raise SpecError(
                f"Batch {batch:g} is too far from the measured {measured}: request a batch at most {_BATCH_REACH} "
                "times larger or smaller, or measure closer to it."
            )


def global_batch(workers: Sequence[float], batches: Sequence[float | None]) -> float | None:
    """The global batch where every count divides the same one among its workers; otherwise None."""
    known = [batch for batch in batches if batch is not None]
    if len(known) < len(batches) or len(set(known)) == 1:
        return None
    wholes = [count * batch for count, batch in zip(workers, known, strict=True)]
    return wholes[0] if max(wholes) - min(wholes) <= _SAME_WHOLE * wholes[0] else None


def batch_at(points: Sequence[Point]) -> Callable[[int], float | None]:
    """The batch at another worker count: a share of the global batch where the points divide one, or constant."""
    whole = global_batch([point.workers for point in points], [point.batch for point in points])
    first = points[0].batch
    return lambda workers: first if whole is None else whole / workers

"""A projected curve: the points asked for, the answer at each, its knee, and how far it may be asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.errors import SpecError

_BATCH_REACH = 32
"""How many times the batches that were measured may be asked for, or what part of them."""

_SAME_WHOLE = 0.02

REACH = 1024
"""How many times the workers that were measured may be asked for."""

KNEE_GAIN = 1.5
"""What doubling the workers brings where it adds 50 %."""

_ONE_BY_ONE, _PER_DOUBLING = 16, 8
"""The knee is looked for at every count up to the first, then at so many counts per doubling."""


@dataclass(frozen=True)
class Point:
    """One point that is asked for."""

    workers: int
    nodes: int | None = None
    """Nodes; None where the source does not distinguish one node from several."""

    batch: float | None = None
    """Samples per worker and update; None where the source does not give it."""


@dataclass(frozen=True)
class Projected:
    """The answer at one point; bands are in the unit of the throughput. Unknown is None."""

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
    """A projection, in the order asked."""

    law: str
    points: tuple[Projected, ...]
    knee_workers: int | None
    """The first count at which doubling the workers adds less than 50 %; None where there is none in the range."""

    validated_on: str
    warnings: tuple[str, ...]


def knee(throughput: Callable[[Sequence[int]], Sequence[float]], most: int) -> int | None:
    """The first count, up to `most`, at which doubling the workers adds less than 50 %; None where there is none.

    `throughput` gives the rates at several counts. Beyond 16 workers the count is found between two that are near.
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
    """Refuse workers that are far beyond those that were measured; `basis` is what the projection is made from."""
    most = max(point.workers for point in points)
    if most > reach * measured:
        raise SpecError(
            f"{most} workers are more than {reach} times the {measured} that were measured, too far for {basis}: "
            f"ask for at most {reach * measured}, or measure more workers."
        )


def far_beyond(points: Sequence[Point], measured: int, far: int) -> list[str]:
    """A warning where more than `far` times the workers that were measured are asked for."""
    most = max(point.workers for point in points)
    if most <= far * measured:
        return []
    return [f"{most} workers are {most / measured:.0f} times those that were measured: rely on the band."]


def require_near_batches(points: Sequence[Point], smallest: float, largest: float) -> None:
    """Refuse batches that are far from all that were measured."""
    for batch in (point.batch for point in points if point.batch is not None):
        if not smallest / _BATCH_REACH <= batch <= largest * _BATCH_REACH:
            measured = f"{smallest:g}" if smallest == largest else f"{smallest:g} to {largest:g}"
            raise SpecError(
                f"Batch {batch:g} is too far from the measured {measured}: ask for {_BATCH_REACH} times as much or as "
                "little at most, or measure nearer to it."
            )


def global_batch(workers: Sequence[float], batches: Sequence[float | None]) -> float | None:
    """What workers have together at every count, where one batch is divided among more and more; otherwise None."""
    known = [batch for batch in batches if batch is not None]
    if len(known) < len(batches) or len(set(known)) == 1:
        return None
    wholes = [count * batch for count, batch in zip(workers, known, strict=True)]
    return wholes[0] if max(wholes) - min(wholes) <= _SAME_WHOLE * wholes[0] else None


def batch_at(points: Sequence[Point]) -> Callable[[int], float | None]:
    """The batch of other counts of workers: divided where the points divide one, otherwise as in the first of them."""
    whole = global_batch([point.workers for point in points], [point.batch for point in points])
    first = points[0].batch
    return lambda workers: first if whole is None else whole / workers

"""A projected curve: the requested points, the answer at each, its knee, and the limits of extrapolation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

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
    """The count from which on no doubling of the workers adds 50 %; None where there is none in the range."""

    validated_on: str
    warnings: tuple[str, ...]
    weak_doublings: tuple[tuple[int, int], ...] = ()
    """Stretches before the knee where doubling adds less than 50 % although a later doubling adds more."""


@dataclass(frozen=True)
class Knee:
    """Where more workers stop paying. A doubling pays if it adds 50 % to the best rate of any count up to it."""

    workers: int | None
    """The count from which on no doubling pays; None where doubling the largest count still does."""

    weak: tuple[tuple[int, int], ...] = ()
    """First and last counts of stretches before the knee where a doubling does not pay, though later ones do."""


def knee(throughput: Callable[[Sequence[int]], Sequence[float]], most: int) -> Knee:
    """The knee up to `most` workers: a later doubling that pays lifts it.

    `throughput` gives the rates at several counts. Beyond 16 workers the search is coarse, then bisects.
    """
    counts = sorted({count for octave in _octaves(most) for count in octave})
    rates = throughput([*counts, *(2 * count for count in counts)])
    best = list(accumulate(rates[: len(counts)], max))
    pays = [rates[len(counts) + i] >= KNEE_GAIN * best[i] for i in range(len(counts))]
    last = max((i for i, paid in enumerate(pays) if paid), default=None)
    if last is None:
        return Knee(1)
    weak = tuple(_stretches(counts[: last + 1], pays[: last + 1]))
    if last == len(counts) - 1:
        return Knee(None, weak)
    low, high = counts[last], counts[last + 1]  # doubling the first pays, doubling the second does not
    while high - low > 1:
        middle = (low + high) // 2
        here, twice = throughput([middle, 2 * middle])
        low, high = (middle, high) if twice >= KNEE_GAIN * max(best[last], here) else (low, middle)
    return Knee(high, weak)


def _stretches(counts: Sequence[int], pays: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """First and last count of each stretch that does not pay."""
    for paid, group in groupby(zip(counts, pays, strict=True), key=lambda pair: pair[1]):
        if not paid:
            stretch = [count for count, _ in group]
            yield stretch[0], stretch[-1]


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

"""A projected curve: the points asked for, the answer at each, and what is to be said about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.errors import SpecError

_BATCH_REACH = 32
"""How many times the batches that were measured may be asked for, or what part of them."""

_SAME_WHOLE = 0.02


@dataclass(frozen=True)
class Point:
    """What is asked for."""

    workers: int
    nodes: int | None = None
    """Hosts; None where the source does not tell workers of one node from those of several."""

    batch: float | None = None
    """Samples per worker and update; None where the source does not say."""


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
class Curve:
    """A projection, in the order asked."""

    law: str
    points: tuple[Projected, ...]
    knee_workers: int | None
    """The first count at which twice as many workers bring less than half of what they could; None beyond the range."""

    validated_on: str
    warnings: tuple[str, ...]


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

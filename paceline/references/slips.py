"""Slips that explain one odd figure: a digit lost or added, one worker's rate, another unit, two rows exchanged."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from paceline.references.chains import CurvePoint

_NEAR = 0.12
"""The largest logarithm of the ratio between a mended figure and what the other rows suggest."""


@dataclass(frozen=True)
class Slip:
    """A slip that would explain a figure, and how far the mended figure is from what the other rows suggest."""

    words: str
    value: float
    """The mended figure."""

    away: float
    sure: bool = True
    """Whether few other figures would be explained as well; some digit makes almost any figure fit."""


def explain(point: CurvePoint, low: float, high: float) -> Slip | None:
    """The slip that brings a figure closest to the expected range; None where none brings it near."""

    def away(value: float) -> float:
        return max(0.0, math.log(low / value), math.log(value / high))

    tried = [Slip(words, value, away(value)) for words, value in _mended(point)]
    best = min(tried, key=lambda slip: slip.away)
    if best.away <= _NEAR:
        return best
    nearest = min(_with_a_digit(point.value), key=away, default=point.value)
    return Slip("a digit is missing", nearest, away(nearest), sure=False) if away(nearest) <= _NEAR else None


def _mended(point: CurvePoint) -> Iterator[tuple[str, float]]:
    """What the figure would be without each slip."""
    value, devices = point.value, point.devices
    yield "a digit is missing", 10 * value
    yield "there is a digit too many", value / 10
    if point.figure in ("throughput", "speedup") and devices > 1:
        yield "it is the rate of one worker" if point.figure == "throughput" else "it is an efficiency", devices * value
        yield "it was multiplied by the workers twice", value / devices
        nodes = {row.nodes for row in point.rows}
        if len(nodes) == 1 and (count := nodes.pop()) and 1 < count < devices:
            yield "it is the rate of one node", count * value
    if point.figure == "efficiency":
        yield "it is in another unit (percent or fraction)", 100 * value
        yield "it is in another unit (percent or fraction)", value / 100
    else:
        for factor in (60, 1000, 3600):
            yield "it is in another unit", factor * value
            yield "it is in another unit", value / factor


def _with_a_digit(value: float) -> Iterator[float]:
    """The figure with one more digit anywhere before its decimal point."""
    whole, dot, rest = f"{value:.10g}".partition(".")
    if not whole.isdigit():
        return
    for place in range(len(whole)):
        for digit in range(0 if place else 1, 10):
            if more := float(f"{whole[:place]}{digit}{whole[place:]}{dot}{rest}"):
                yield more

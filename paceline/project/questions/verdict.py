"""The verdict on a larger count of workers: worth it or not, at which odds, and what to measure next to know."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from paceline.errors import SpecError
from paceline.project.curve import Projected
from paceline.project.questions.targets import odds_of

CERTAIN = 0.9
"""The odds of a verdict, as at the low end of an 80 % band; below one minus them it is the opposite one."""

NEEDED = 0.5
"""The share of the ideal gain that makes more workers worth it, as for the knee."""

_MOST_CANDIDATES = 4

Decision = Literal["worth it", "not worth it", "open"]


@dataclass(frozen=True)
class NextMeasurement:
    """What one more measured count would tell, if it came out as projected."""

    workers: int
    low80: float
    high80: float
    """The 80 % band of the gain after it."""

    narrower: float
    """The share of the band's width, in logarithms, that goes away."""

    odds: float


@dataclass(frozen=True)
class Verdict:
    """What `more` workers bring instead of `fewer`. Gains are ratios of throughput."""

    fewer: int
    more: int
    gain: float
    low80: float
    high80: float
    share: float
    """The share of the ideal gain: 1 where each added worker brings as much as each of the fewer."""

    needed: float
    odds: float
    """The odds that the share is at least `needed`."""

    decision: Decision
    candidates: tuple[NextMeasurement, ...]
    measure_next: int | None
    """The smallest candidate that would decide, or else the one that narrows the band most; None without any."""


def parse_worth(text: str) -> tuple[int, int]:
    """`8,64` → from 8 to 64 workers."""
    counts = [part.strip() for part in text.split(",")]
    if len(counts) != 2 or not all(part.isdecimal() and int(part) >= 1 for part in counts):
        raise SpecError(f"--worth {text!r} is not valid: give two counts of workers, as in 8,64.")
    fewer, more = map(int, counts)
    if fewer >= more:
        raise SpecError(f"--worth {text!r} is not valid: the second count must be the larger one, as in 8,64.")
    return fewer, more


def verdict(
    fewer: Projected,
    more: Projected,
    needed: float,
    measured: Sequence[int],
    if_measured: Callable[[int], Projected],
) -> Verdict | None:
    """The verdict, None without throughput; `if_measured` projects `more` as if one more count had been measured."""
    gain = _gain(fewer, more, measured)
    if gain is None:
        return None
    ideal = more.point.workers / fewer.point.workers - 1
    least = 1 + needed * ideal
    candidates = []
    for workers in _candidates(fewer.point.workers, more.point.workers, measured):
        after = _gain(fewer, if_measured(workers), (*measured, workers))
        if after is not None:
            # As projected: only the width is news, the middle is not.
            narrowed = _around(gain, min(1.0, _width(after) / _width(gain)))
            chance = odds_of(narrowed, least) or 0.0
            share = 1 - _width(narrowed) / _width(gain)
            candidates.append(NextMeasurement(workers, *_ends(narrowed), share, chance))
    odds = odds_of(gain, least) or 0.0
    return Verdict(
        fewer.point.workers,
        more.point.workers,
        gain.throughput or 0.0,
        *_ends(gain),
        share=((gain.throughput or 0.0) - 1) / ideal,
        needed=needed,
        odds=odds,
        decision=_decided(odds),
        candidates=tuple(candidates),
        measure_next=_next(candidates),
    )


def _decided(odds: float) -> Decision:
    return "worth it" if odds >= CERTAIN else "not worth it" if odds <= 1 - CERTAIN else "open"


def _next(candidates: Sequence[NextMeasurement]) -> int | None:
    decisive = [each for each in candidates if _decided(each.odds) != "open"]
    if decisive:
        return min(each.workers for each in decisive)
    return max(candidates, key=lambda each: each.narrower).workers if candidates else None


def _gain(fewer: Projected, more: Projected, measured: Sequence[int]) -> Projected | None:
    """The ratio of throughputs as if it were one; the band of the fewer counts where that count was not measured."""
    if not all((fewer.throughput, fewer.low80, fewer.high80, more.throughput, more.low80, more.high80)):
        return None
    assert fewer.throughput is not None
    assert more.throughput is not None
    ratio = more.throughput / fewer.throughput
    own = 0.0 if fewer.point.workers in measured else 1.0
    down = math.hypot(
        math.log(more.throughput / (more.low80 or 1)), own * math.log((fewer.high80 or 1) / fewer.throughput)
    )
    up = math.hypot(
        math.log((more.high80 or 1) / more.throughput), own * math.log(fewer.throughput / (fewer.low80 or 1))
    )
    return replace(more, throughput=ratio, low80=ratio * math.exp(-down), high80=ratio * math.exp(up))


def _width(gain: Projected) -> float:
    low, high = _ends(gain)
    return math.log(high / low)


def _ends(gain: Projected) -> tuple[float, float]:
    assert gain.low80 is not None
    assert gain.high80 is not None
    return gain.low80, gain.high80


def _around(gain: Projected, factor: float) -> Projected:
    """The same gain with a band this many times as wide."""
    middle, (low, high) = gain.throughput or 1.0, _ends(gain)
    return replace(gain, low80=middle * (low / middle) ** factor, high80=middle * (high / middle) ** factor)


def _candidates(fewer: int, more: int, measured: Sequence[int]) -> list[int]:
    """Counts that were not measured: doublings of the largest measured one up to the larger count, and both counts."""
    found = {count for count in (*_doublings(max(measured), more), fewer, more) if count not in measured}
    return sorted(found)[-_MOST_CANDIDATES:]


def _doublings(first: int, last: int) -> Iterator[int]:
    count = 2 * first
    while count < last:
        yield count
        count *= 2

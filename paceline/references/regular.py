"""The check for rows that do not fit the others: the rate per worker changes smoothly, and never rises much."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from paceline.numbers import count, significant
from paceline.references.base import Reference, Row, Series
from paceline.references.chains import CurvePoint, chains
from paceline.references.findings import Remark, Severity, listed
from paceline.references.slips import Slip, explain

# With more workers in the same setting none of them gets faster: a rise is noise, or a figure is wrong. In tables that
# are sound single rows lie up to 22 % off.
_RISE = math.log(1.35)
_NOTEWORTHY_RISE = math.log(1.1)
# A fall may be real (a slow link to a second node). It is doubted only where all workers together are slower than
# fewer were, each loses this factor at once, and all other rows agree without this one.
_FALL, _TOGETHER = math.log(1.8), math.log(0.95)
# Repeats of one setting do not differ by this much.
_APART = math.log(1.6)
# And only where it is this many times what the others lose by any doubling: a steep curve may become steeper.
_STEEPER = 4.0
# Such a fall is a fault if the total falls this far and a slip explains it; otherwise a warning.
_DEEP = math.log(0.6)
# Nobody goes on with a link that leaves less than this of the total.
_ABSURD = math.log(0.2)
_SWAPPED, _MUCH_SMOOTHER = 0.15, 6.0
# Counts this close change little when they are exchanged: the curve must become this many times smoother.
_CLOSE, _ENOUGH_TO_BE_SMOOTH, _SMOOTHER, _ROUGH = math.log(1.6), 6, 3.0, 0.08
# Two rows do not show a trend. Only this one thing is said of them: the totals are equal.
_EQUAL = (math.log(0.85), math.log(1.05))
# With many points the noise of the table is known, and a rise must exceed it by far.
_MANY, _BEYOND_NOISE = 24, 6.0
_AROUND, _MOST_AT_ONCE = 3, 14
_NOUNS = {"throughput": "speed", "step_seconds": "step time", "speedup": "speed-up", "efficiency": "efficiency"}


def regular(series: Series, _: Reference) -> Iterator[Remark]:
    """Rows that contradict the rows around them, each with the slip that would explain it."""
    said: set[tuple[Row, ...]] = set()
    for chain in chains(series):
        apart = [point for point in chain if _repeats_apart(point)]
        points = tuple(point for point in chain if point not in apart)
        for remark in (*map(_about_repeats, apart), *_Chain(points, _rise(points)).remarks()):
            if remark.rows not in said:
                said.add(remark.rows)
                yield remark


def _rise(points: Sequence[CurvePoint]) -> float:
    """The largest rise of the rate per worker from one point to the next that is no fault."""
    if len(points) < _MANY:
        return _RISE
    bends = [a.level - 2 * b.level + c.level for a, b, c in zip(points, points[1:], points[2:], strict=False)]
    noise = 1.4826 * statistics.median(map(abs, bends)) / math.sqrt(6)  # of one point, where neighbours are a line
    return max(_RISE, _BEYOND_NOISE * math.sqrt(2) * noise)


def _repeats_apart(point: CurvePoint) -> bool:
    """Whether two rows of the same setting differ by a factor."""
    values = _values(point)
    return len(values) == 2 and math.log(max(values) / min(values)) > _APART


def _values(point: CurvePoint) -> list[float]:
    return [value for row in point.rows if (value := getattr(row, point.figure))]


def _about_repeats(point: CurvePoint) -> Remark:
    values = _values(point)
    return Remark(
        "fault",
        f"Two rows of {_many(point)} with the same settings differ by a factor of "
        f"{significant(max(values) / min(values), 2)} ({listed(list(map(_figure, values)))}): a figure or a count is "
        "wrong.",
        point.rows,
    )


@dataclass(frozen=True)
class _Chain:
    """Points in order of devices, and how far the rate per worker may rise from one to the next."""

    points: tuple[CurvePoint, ...]
    rise: float

    def remarks(self) -> Iterator[Remark]:
        """What is odd, place by place."""
        if len(self.points) == 2 and not self._odd_edges(self.points):
            yield from _no_faster(*self.points)
        places = self._places()
        for first, last in places:
            if len(self.points) > 2 or self._rises(*self.points):
                yield from self._explained(self.points[first:last])
        if not places and _ENOUGH_TO_BE_SMOOTH <= len(self.points) <= _MOST_AT_ONCE:
            yield from self._exchanged_neighbours()
        yield from self._dips()

    def _odd_edges(self, points: Sequence[CurvePoint]) -> list[int]:
        """Indices of the points that the next one contradicts."""
        odd = []
        for index, (fewer, more) in enumerate(pairwise(points)):
            if self._rises(fewer, more) or _falls(fewer, more):
                odd.append(index)
        return odd

    def _rises(self, fewer: CurvePoint, more: CurvePoint) -> bool:
        return more.level - fewer.level > self.rise

    def _places(self) -> list[tuple[int, int]]:
        """Stretches around contradictions; those that touch are one."""
        places: list[tuple[int, int]] = []
        for edge in self._odd_edges(self.points):
            first, last = max(0, edge - _AROUND), min(len(self.points), edge + 2 + _AROUND)
            if places and first < places[-1][1]:
                places[-1] = (places[-1][0], last)
            else:
                places.append((first, last))
        return places

    def _explained(self, points: tuple[CurvePoint, ...]) -> Iterator[Remark]:
        """Explain a stretch: two rows exchanged, one odd row, or neither."""
        swap = self._swapped(points) if len(points) <= _MOST_AT_ONCE else None
        odd = self._odd_rows(points) if len(points) <= _MOST_AT_ONCE else []
        edges = [(points[i], points[i + 1]) for i in self._odd_edges(points)]
        rises = any(self._rises(*edge) for edge in edges)
        lowest = min(_together(*edge) for edge in edges)
        deep = lowest < _DEEP
        if swap is not None and (rises or deep) and not (odd and odd[0].rough < swap[2]):
            yield _about_swap("fault", *swap[:2])
        elif odd and (rises or lowest < _ABSURD or odd[0].likely(points, deep=deep)):
            yield _about_odd(points, odd, sure=rises or (deep and odd[0].slip is not None and odd[0].slip.sure))
        else:
            yield from self._about_edges(points)

    def _swapped(self, points: Sequence[CurvePoint]) -> tuple[CurvePoint, CurvePoint, float] | None:
        """Two points whose figures make a regular curve when exchanged, and how rough it then is."""
        if len(points) < 3:
            return None
        tried = ((i, j, _exchanged(points, i, j)) for i, j in combinations(range(len(points)), 2))
        fit = [(i, j, _roughness(mended)) for i, j, mended in tried if mended and not self._odd_edges(mended)]
        i, j, rough = min(fit, key=lambda each: each[2], default=(0, 0, math.inf))
        return (points[i], points[j], rough) if rough <= max(_SWAPPED, _roughness(points) / _MUCH_SMOOTHER) else None

    def _exchanged_neighbours(self) -> Iterator[Remark]:
        """Close counts whose exchange makes a curve much smoother: by itself, neither is impossible."""
        rough = _roughness(self.points)
        tried = [
            (_roughness(mended), i)
            for i, (fewer, more) in enumerate(pairwise(self.points))
            if more.log_devices - fewer.log_devices < _CLOSE and (mended := _exchanged(self.points, i, i + 1))
        ]
        best, index = min(tried, default=(math.inf, 0))
        if rough > _ROUGH and best < rough / _SMOOTHER:
            yield _about_swap("warning", self.points[index], self.points[index + 1])

    def _odd_rows(self, points: tuple[CurvePoint, ...]) -> list["_Odd"]:
        """Points without which all others agree, the one that a slip explains best first."""
        odd = []
        rises = any(self._rises(*edge) for edge in pairwise(points))
        for index, point in enumerate(points):
            others = points[:index] + points[index + 1 :]
            if len(others) < 2 or self._odd_edges(others):
                continue
            levels = _suggested(others, point)
            away = min(abs(level - point.level) for level in levels)
            if not rises and away < max(_FALL, _STEEPER * _steepest(others)):
                continue
            expected = [point.moved(level - point.level) for level in levels]
            slip = explain(point, min(expected), max(expected))
            mended = replace(point, value=expected[0] if slip is None else slip.value)
            rough = _roughness([*points[:index], mended, *points[index + 1 :]])
            odd.append(_Odd(point, expected[0], slip, rough if slip is not None else 1 + rough))
        return sorted(odd, key=lambda each: each.rough)

    def _about_edges(self, points: Sequence[CurvePoint]) -> Iterator[Remark]:
        for fewer, more in ((points[i], points[i + 1]) for i in self._odd_edges(points)):
            if self._rises(fewer, more):
                factor = math.exp(more.level - fewer.level)
                yield Remark(
                    "fault",
                    f"The rate per worker rises {significant(factor, 2)}-fold from {_many(fewer)} to "
                    f"{_many(more)}, which more workers cannot do: one of the two rows is wrong.",
                    (*fewer.rows, *more.rows),
                )
            else:
                yield Remark(
                    "warning" if _together(fewer, more) < _ABSURD else "note",
                    f"{_many(more)} together are {1 - math.exp(_together(fewer, more)):.0%} slower than "
                    f"{_many(fewer)}: a slow link can do that, and so can a wrong figure.",
                    (*fewer.rows, *more.rows),
                )

    def _dips(self) -> Iterator[Remark]:
        """Note a row that lies below the next one by more than noise, though not impossibly."""
        for fewer, more in pairwise(self.points):
            rise = more.level - fewer.level
            if len(self.points) < _MANY and fewer.devices > 1 and _NOTEWORTHY_RISE < rise <= self.rise:
                yield Remark(
                    "note",
                    f"The rate per worker rises by {math.exp(rise) - 1:.0%} from {_many(fewer)} to {_many(more)}: "
                    f"the row of {_many(fewer)} is low, or the settings differ.",
                    (*fewer.rows, *more.rows),
                )


@dataclass(frozen=True)
class _Odd:
    """A point that the others contradict, what they suggest instead, and a slip that would explain it."""

    point: CurvePoint
    expected: float
    slip: Slip | None
    rough: float
    """How rough the curve is with the mended figure; 1 is added where no slip explains it."""

    def likely(self, points: Sequence[CurvePoint], *, deep: bool) -> bool:
        """Whether a slip is a better guess than a slow link; where a second node comes in, only if much is lost."""
        if self.slip is None:
            return False
        before = [point for point in points if point.devices < self.point.devices]
        leaves_node = self.point.leaves_node and not any(point.leaves_node for point in before)
        return self.slip.sure or deep or not leaves_node


def _together(fewer: CurvePoint, more: CurvePoint) -> float:
    """Logarithm of the ratio of the totals."""
    return more.level - fewer.level + more.log_devices - fewer.log_devices


def _falls(fewer: CurvePoint, more: CurvePoint) -> bool:
    return fewer.level - more.level > _FALL and _together(fewer, more) < _TOGETHER


def _suggested(points: Sequence[CurvePoint], at: CurvePoint) -> tuple[float, ...]:
    """Levels that other points suggest, the likeliest first: neighbours, and the line in log devices through them."""
    below = [point for point in points if point.devices < at.devices]
    above = [point for point in points if point.devices > at.devices]
    if below and above:
        return _line(below[-1], above[0], at), below[-1].level, above[0].level
    last, before, *_ = [*reversed(below), *above]
    goes_on = _line(before, last, at)
    falls_on = goes_on if (goes_on < last.level) == bool(below) else last.level
    return falls_on, last.level, before.level


def _line(first: CurvePoint, second: CurvePoint, at: CurvePoint) -> float:
    share = (at.log_devices - first.log_devices) / (second.log_devices - first.log_devices)
    return first.level + share * (second.level - first.level)


def _roughness(points: Sequence[CurvePoint]) -> float:
    """The largest distance of an inner point from the line between its neighbours, and the largest rise."""
    bends = [abs(b.level - _line(a, c, b)) for a, b, c in zip(points, points[1:], points[2:], strict=False)]
    return max([*bends, *(more.level - fewer.level for fewer, more in pairwise(points))])


def _steepest(points: Sequence[CurvePoint]) -> float:
    """The largest fall of the level per doubling, over at least a doubling where that is possible."""
    pairs = [(a, b) for a, b in combinations(points, 2) if b.devices >= 2 * a.devices] or list(pairwise(points))
    return max(math.log(2) * (a.level - b.level) / (b.log_devices - a.log_devices) for a, b in pairs)


def _exchanged(points: Sequence[CurvePoint], i: int, j: int) -> list[CurvePoint] | None:
    """The points with the figures of two of them exchanged; None where these have repeats."""
    first, second = points[i], points[j]
    if len(first.rows) > 1 or len(second.rows) > 1:
        return None
    mended = list(points)
    mended[i], mended[j] = replace(first, value=second.value), replace(second, value=first.value)
    return mended


def _about_odd(points: Sequence[CurvePoint], odd: Sequence[_Odd], *, sure: bool) -> Remark:
    """One row that the others contradict; where no slip tells which, all rows that may be it."""
    one = odd[0]
    others = [point for point in points if point is not one.point]
    also = [each for each in odd[1:] if one.slip is None]
    noun = _NOUNS[one.point.figure]
    slip = ""
    if one.slip is not None:
        slip = f": {one.slip.words}, it seems" if one.slip.sure else f": {one.slip.words}, or the link is slow"
    if also:
        slip += f". Or else that of {listed([_many(each.point) for each in also])} is wrong"
    baseline = "The baseline is the odd row: the" if one.point.devices == 1 else "The"
    return Remark(
        "fault" if sure else "warning",
        f"{baseline} {noun} of {_many(one.point)} does not fit the rows of {_counts(others)}, which agree with one "
        f"another. It is {_figure(one.point.value)}, and they suggest about {_figure(one.expected)}{slip}.",
        tuple(row for each in (one, *also) for row in each.point.rows),
    )


def _about_swap(severity: Severity, first: CurvePoint, second: CurvePoint) -> Remark:
    noun = _NOUNS[first.figure]
    return Remark(
        severity,
        f"The rows of {_many(first)} and {_many(second)} seem exchanged: {noun}s of {_figure(first.value)} and "
        f"{_figure(second.value)} contradict the other rows, and the other way round they fit.",
        (*first.rows, *second.rows),
    )


def _no_faster(fewer: CurvePoint, more: CurvePoint) -> Iterator[Remark]:
    """Of two rows with equal totals the second may be the rate of one worker."""
    if more.figure == "throughput" and fewer.devices == 1 and _EQUAL[0] < _together(fewer, more) < _EQUAL[1]:
        yield Remark(
            "warning",
            f"{_many(more)} together are not faster than {_many(fewer)} ({_figure(more.value)} and "
            f"{_figure(fewer.value)}): is {_figure(more.value)} the rate of one worker?",
            more.rows,
        )


def _many(point: CurvePoint) -> str:
    """`4 workers`, or the devices where a row has several workers on each."""
    workers = point.rows[0].workers
    return count(workers, "worker") if workers is not None else count(round(point.devices), "device")


def _counts(points: Sequence[CurvePoint]) -> str:
    counts = [f"{point.rows[0].workers or round(point.devices):,}" for point in points]
    return f"{listed(counts)} workers"


def _figure(value: float) -> str:
    return significant(value, 3) if value < 1 else significant(value)

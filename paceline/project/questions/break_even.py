"""The bandwidths between nodes at which two strategies are equally fast."""

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from paceline.errors import SpecError
from paceline.measure.extremes import Z80
from paceline.project.curve import Point
from paceline.project.questions.whatif import Measured, Question, SimulatedPoint, layout_of
from paceline.project.simulation.network import LinkModel

_SLOWEST_BYTES, _FASTEST_BYTES = 1e3, 1e13
"""The range of the search, in bytes per second."""

_PER_DECADE = 8
_HALVINGS = 40
# Strategies whose steps differ by less are equally fast: neither is called faster there.
_EQUAL = 1e-4


@dataclass(frozen=True)
class Crossing:
    """A bandwidth at which one strategy overtakes the other."""

    bytes_per_second: float
    low80: float | None
    high80: float | None
    """Where the difference exceeds the error of both exchanges; None where it does not up to the end of the search."""

    faster_below: str
    faster_above: str


@dataclass(frozen=True)
class BreakEven:
    """Where each of two strategies is faster."""

    bytes_per_second: float | None
    """Usable bandwidth between nodes at the first crossing; None if one is at least as fast at any bandwidth."""

    faster_below: str
    faster_above: str
    """The faster ones at the lowest and at the highest bandwidth."""

    crossings: tuple[Crossing, ...] = ()


def break_even(measured: Measured, point: Point, question: Question, strategies: tuple[str, str]) -> BreakEven:
    """All bandwidths at which the faster strategy changes, at the question's latency, whichever is named first."""
    if question.network is None or layout_of(measured, point, question).nodes == 1:
        raise SpecError(
            "A break-even bandwidth needs a network between at least two nodes: give both, as in "
            "--network 1Gbps,latency=50us --workers-per-node 1."
        )
    race = _Race(measured, point, question, *sorted(strategies))
    grid = [math.log(_SLOWEST_BYTES) + i * math.log(10) / _PER_DECADE for i in range(1 + _decades() * _PER_DECADE)]
    decided = [log for log in grid if race.leader(log) is not None]
    if not decided:
        return BreakEven(None, strategies[0], strategies[0])
    changes = [(a, b) for a, b in pairwise(decided) if race.leader(a) != race.leader(b)]
    crossings = tuple(race.crossing(a, b, grid) for a, b in changes)
    below, above = race.leader(decided[0]), race.leader(decided[-1])
    assert below is not None
    assert above is not None
    return BreakEven(crossings[0].bytes_per_second if crossings else None, below, above, crossings)


def _decades() -> int:
    return round(math.log10(_FASTEST_BYTES / _SLOWEST_BYTES))


class _Race:
    """Two strategies at one point, at any bandwidth."""

    def __init__(self, measured: Measured, point: Point, question: Question, first: str, second: str) -> None:
        self.first, self.second = first, second
        network = question.network
        assert network is not None

        @cache
        def lead(log_bandwidth: float) -> tuple[float, float]:
            """Logarithm of how much faster the first is, and the standard error of that."""
            link = LinkModel(math.exp(log_bandwidth), network.between.latency_seconds)
            there = replace(question, network=replace(network, between=link))
            one, two = (SimulatedPoint.of(measured, point, replace(there, strategy=s)) for s in (first, second))
            return math.log(two.seconds / one.seconds), math.hypot(one.exchange_error, two.exchange_error)

        self.lead = lead

    def leader(self, log_bandwidth: float) -> str | None:
        """The faster one; None where they are equally fast."""
        ahead = self.lead(log_bandwidth)[0]
        return None if abs(ahead) < _EQUAL else self.first if ahead > 0 else self.second

    def crossing(self, low: float, high: float, grid: list[float]) -> Crossing:
        """Where the lead changes between two bandwidths, and how far it is certain."""
        below, above = self.leader(low), self.leader(high)
        assert below is not None
        assert above is not None
        sign = 1.0 if below == self.first else -1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if sign * self.lead(middle)[0] > 0 else (low, middle)
        at = (low + high) / 2
        slower = [log for log in grid if log < at and self._certain(log)]
        faster = [log for log in grid if log > at and self._certain(log)]
        ends = (math.exp(slower[-1]) if slower else None, math.exp(faster[0]) if faster else None)
        return Crossing(math.exp(at), *ends, below, above)

    def _certain(self, log_bandwidth: float) -> bool:
        """Whether the lead exceeds the error of both exchanges, taken as independent."""
        ahead, error = self.lead(log_bandwidth)
        return abs(ahead) > Z80 * error

"""Rates over repeats, and ratios of two settings' rates with intervals from alternating repeats."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from paceline.measure.stats import Figure, t_quantile
from paceline.record import Record

_FEW_TURNS = 3


def rate_of(record: Record) -> Figure:
    """A record's own throughput."""
    return Figure.of(record.throughput)


def rate_over(records: Sequence[Record]) -> Figure:
    """The geometric mean over repeats with Student's interval of their logarithms; one record keeps its own figure.

    The mean is geometric so that the ratio of two settings' rates is the mean ratio of their turns.
    """
    if len(records) == 1:
        return rate_of(records[0])
    return _geometric([math.log(rate_of(record).value) for record in records])


def ratio_of(first: Sequence[Record], second: Sequence[Record]) -> tuple[Figure, list[str]]:
    """The ratio of the rates of `first` and `second`, and notes about its interval.

    Runs of the same turn are close in time, so whatever slowed the machine meanwhile cancels in their ratio. With two
    or more turns, the interval is Student's, of the logarithms of the turns' ratios. One turn does not show what
    changes from run to run: the two runs' own intervals are combined, and a note says so.
    """
    pairs = list(_turns(first, second))
    if len(pairs) > 1:
        ratio = _geometric([math.log(rate_of(a).value / rate_of(b).value) for a, b in pairs])
        few = f"Only {len(pairs)} turns: the interval is wide. Take {_FEW_TURNS} or more (--repeats)."
        return ratio, [few] if len(pairs) < _FEW_TURNS else []
    if not pairs:
        value = rate_over(first).value / rate_over(second).value
        return Figure(value), ["No turn has both runs, so there is no interval. Run the missing ones."]
    ratio = _combined(*(rate_of(record) for record in pairs[0]))
    source = (
        "the interval covers variation within the runs, not between them"
        if ratio.spread is not None
        else "there is no interval"
    )
    return ratio, [f"One turn only: {source}. Take {_FEW_TURNS} or more (--repeats)."]


def _turns(first: Sequence[Record], second: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Pairs of records of the same turn; several records of one turn are paired in order."""
    others = dict(_numbered(second))
    return ((record, others[turn]) for turn, record in _numbered(first) if turn in others)


def _numbered(records: Sequence[Record]) -> Iterator[tuple[tuple[int, int], Record]]:
    seen: Counter[int] = Counter()
    for record in records:
        turn = turn_of(record)
        yield (turn, seen[turn]), record
        seen[turn] += 1


def turn_of(record: Record) -> int:
    """The number of the repeat."""
    return int(record.spec.turn)


def _geometric(logarithms: Sequence[float]) -> Figure:
    n = len(logarithms)
    mean = math.fsum(logarithms) / n
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in logarithms) / (n - 1) / n)
    reach = t_quantile(n - 1) * error
    return Figure(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))


def _combined(first: Figure, second: Figure) -> Figure:
    """The ratio of two independent figures; the distances to the ends, as logarithms, add up by their squares."""
    value = first.value / second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Figure(value)
    below = math.hypot(math.log(first.value / first.low), math.log(second.high / second.value))
    above = math.hypot(math.log(first.high / first.value), math.log(second.value / second.low))
    return Figure(value, value * math.exp(-below), value * math.exp(above))

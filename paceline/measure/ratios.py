"""Rates over repeats, and ratios of two settings' rates with intervals from alternating repeats."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from paceline.measure.stats import ENOUGH_STEPS, Figure, t_quantile, too_few
from paceline.record import Record
from paceline.timing import fixed_timing

FEW_TURNS = 3

_MORE_TURNS = f"Take {FEW_TURNS} or more (--repeats)."


def rate_of(record: Record) -> Figure:
    """A record's own throughput."""
    throughput, fixed = record.throughput, fixed_timing(record.spec.timing) is not None
    return Figure(throughput.value, throughput.low, throughput.high, fixed=fixed)


def rate_over(records: Sequence[Record]) -> Figure:
    """The geometric mean over repeats with Student's interval of their logarithms; one record keeps its own figure.

    The mean is geometric so that the ratio of two settings' rates is the mean ratio of their turns.
    """
    if len(records) == 1:
        return rate_of(records[0])
    return geometric([math.log(rate_of(record).value) for record in records])


def why_not_known(records: Sequence[Record]) -> str | None:
    """Why the rate over these repeats is not known, and what to do; None where it is known."""
    rate, steps = rate_over(records), min(record.steps_timed for record in records)
    if rate.known:
        return None
    if len(records) > 1:
        return f"its {len(records)} turns differ too much. Take more turns (--repeats), on a quieter machine."
    if rate.spread is None and steps < ENOUGH_STEPS:
        return too_few(steps)
    return "its 95 % interval spans more than 2x. Run longer, on a quieter machine."


def ratio_of(
    first: Sequence[Record], second: Sequence[Record], *, comparisons: float = 1
) -> tuple[Figure | None, list[str]]:
    """The ratio of the rates of `first` and `second`, and notes about its interval; None where it is not known.

    Runs of the same turn are close in time, so whatever slowed the machine meanwhile cancels in their ratio. With two
    or more turns, the interval is Student's, of the logarithms of the turns' ratios. One turn does not show what
    changes from run to run: the two runs' own intervals are combined, and a note says so. The intervals of several
    `comparisons` are wider, so that all of them hold together with 95 %.
    """
    logs = turn_ratios(first, second)
    if len(logs) > 1:
        ratio = geometric(logs, comparisons=comparisons)
        few = f"Only {len(logs)} turns: the interval is wide. {_MORE_TURNS}"
        return ratio if geometric(logs).known else None, [few] if len(logs) < FEW_TURNS else []
    if not logs:
        return None, []
    one, other = next(_pairs(first, second))
    combined = rate_of(one).divided_by(rate_of(other))
    if combined is None or combined.vague:
        return None, []
    if combined.spread is None:
        return combined, [f"One turn only: there is no interval. {_MORE_TURNS}"]
    source = "the interval covers variation within the runs, not between them"
    return _widened(combined, comparisons), [f"One turn only: {source}. {_MORE_TURNS}"]


def turn_ratios(first: Sequence[Record], second: Sequence[Record]) -> list[float]:
    """The logarithm of the ratio of two settings' rates in every turn that both have."""
    return [math.log(a.throughput.value / b.throughput.value) for a, b in _pairs(first, second)]


def _pairs(first: Sequence[Record], second: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """Pairs of records of the same turn; several records of one turn are paired in order."""
    others = by_turn(second)
    return ((record, others[turn]) for turn, record in by_turn(first).items() if turn in others)


def by_turn(records: Sequence[Record]) -> dict[tuple[int, int], Record]:
    """Every record by its turn, and by its number among several records of one turn."""
    seen: Counter[int] = Counter()
    numbered = {}
    for record in records:
        turn = turn_of(record)
        numbered[turn, seen[turn]] = record
        seen[turn] += 1
    return numbered


def turn_of(record: Record) -> int:
    """The number of the repeat."""
    return int(record.spec.turn)


def geometric(logarithms: Sequence[float], *, comparisons: float = 1) -> Figure:
    """The geometric mean with Student's interval of the logarithms."""
    n = len(logarithms)
    mean = math.fsum(logarithms) / n
    error = math.sqrt(math.fsum((x - mean) ** 2 for x in logarithms) / (n - 1) / n)
    return around(mean, t_quantile(n - 1, comparisons) * error)


def around(mean: float, reach: float) -> Figure:
    """The figure whose logarithm is `mean`, known within ± `reach`."""
    # Beyond this, an interval says nothing, and its ends are no numbers any more.
    reach = min(reach, math.log(1e6))
    return Figure(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))


def _widened(figure: Figure, comparisons: float) -> Figure:
    """The figure with an interval for several comparisons."""
    assert figure.low is not None
    assert figure.high is not None
    factor = t_quantile(_MANY, comparisons) / t_quantile(_MANY)
    low, high = (figure.value * (end / figure.value) ** factor for end in (figure.low, figure.high))
    return Figure(figure.value, low, high)


_MANY = 1000.0
"""Degrees of freedom at which Student's t is normal."""

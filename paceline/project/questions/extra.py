"""Extra answers about a curve, each as sentences, as a column of the table, and as data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from paceline.numbers import count
from paceline.project.curve import Point, Projected
from paceline.project.questions.answer import Answer, Runs
from paceline.project.questions.break_even import Crossing
from paceline.project.questions.targets import (
    REACH,
    SamplesToTarget,
    TimeToTarget,
    cost_per_unit,
    odds_of_efficiency,
    time_to_target,
)
from paceline.project.questions.verdict import CERTAIN, Verdict
from paceline.project.questions.whatif import Question
from paceline.project.questions.words import number
from paceline.project.questions.words import odds as odds_in_words
from paceline.units import human_seconds

_MILLION = 1e6
_EVEN = 0.5


@dataclass(frozen=True)
class ExtraAnswer:
    """What one extra question adds to the output."""

    sentences: tuple[str, ...]
    data: Mapping[str, Any]
    """Entries of the JSON object."""

    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """A cell for every point of the curve."""


def worth_having(points: Sequence[Projected], alone: Projected, efficiency: float) -> ExtraAnswer:
    """The largest requested count at which the whole 80 % band has this efficiency, and counts that may have it."""
    odds = odds_of_efficiency(points, alone, efficiency)
    counts = [(point.point.workers, chance) for point, chance in zip(points, odds, strict=True) if chance is not None]
    certain = max((workers for workers, chance in counts if chance >= CERTAIN), default=None)
    likely = max((workers for workers, chance in counts if chance >= _EVEN), default=None)
    many = "none of these counts for certain" if certain is None else f"up to {count(certain, 'worker')}"
    sentence = f"At an efficiency of {efficiency:.0%} or better: {many}"
    open_counts = [(workers, chance) for workers, chance in counts if chance < CERTAIN and workers > (certain or 0)]
    if open_counts:
        workers, chance = max(open_counts) if likely in (None, certain) else (likely, dict(counts)[likely])
        sentence += f"; {count(workers, 'worker')} with odds of {odds_in_words(chance)}"
    data = {"workers_worth_having": certain, "workers_likely_worth_having": likely, "efficiency_odds": odds}
    return ExtraAnswer((f"{sentence}.",), data)


def worth(found: Verdict | None, fewer: int, more: int) -> ExtraAnswer:
    """Whether more workers are worth it, and what to measure next to know."""
    if found is None:
        return ExtraAnswer(
            (f"Whether {more:,} workers are worth it is not known: throughput unknown.",), {"worth": None}
        )
    first = (
        f"{more:,} instead of {fewer:,} workers bring {number(found.gain)} times the throughput (80 %: "
        f"{number(found.low80)} to {number(found.high80)}), {found.share:.0%} of the ideal gain."
    )
    decision = {"worth it": "Worth it", "not worth it": "Not worth it", "open": "Not decided"}[found.decision]
    second = f"{decision}: the odds of at least {found.needed:.0%} of the ideal gain are {odds_in_words(found.odds)}."
    sentences = [first, second]
    if found.measure_next is not None:
        each = [f"{one.workers:,} ({one.narrower:.0%} narrower)" for one in found.candidates]
        purpose = "To be surer" if found.decision != "open" else "To know"
        sentences.append(
            f"{purpose}, measure {count(found.measure_next, 'worker')} next. If it comes out as projected, the "
            f"band of the gain gets narrower with: {', '.join(each)}."
        )
    return ExtraAnswer(tuple(sentences), {"worth": asdict(found)})


def costs(answer: Answer, price: float) -> ExtraAnswer:
    """The cost of a million samples, or whatever unit throughput counts, at a price per worker and hour."""
    each = [cost_per_unit(point, price) for point in answer.curve.points]
    known = [(cost, p.point.workers) for p, cost in zip(answer.curve.points, each, strict=True) if cost is not None]
    if not known:
        return ExtraAnswer(("Cost unavailable: throughput unknown.",), {"cost_per_unit": each})
    (low, cheapest), (high, most) = min(known), max(known, key=lambda pair: pair[1])
    also = f", and {number(_MILLION * high)} with {most}" if most != cheapest else ""
    sentence = (
        f"A million {answer.unit.removesuffix('/s')} cost {number(_MILLION * low)} with "
        f"{count(cheapest, 'worker')}, the cheapest of these counts{also}."
    )
    cells = [number(None if cost is None else _MILLION * cost) for cost in each]
    return ExtraAnswer((sentence,), {"cost_per_unit": each}, {"cost per million": cells})


def time_to(law: SamplesToTarget, points: Sequence[Projected], what: str) -> ExtraAnswer:
    """The time to the target at every point, and how the number of samples grows with the batch."""
    times = [time_to_target(law, point) for point in points]
    critical = {name: getattr(law.critical, name) for name in ("value", "low", "high")}
    data = {"time_to_target": [None if t is None else asdict(t) for t in times], "critical_batch": critical}
    known = [t for t in times if t is not None]
    if not known:
        return ExtraAnswer((f"Time to {what} unavailable: batch or step time unknown.",), data)
    best, most = min(known, key=lambda t: t.seconds), max(known, key=lambda t: t.workers)
    soonest = f"; {best.workers} would be the fastest, after {_spelled(best)}" if best.workers != most.workers else ""
    sentences = (
        f"{count(most.workers, 'worker')} would reach {what} after {_spelled(most)}{soonest}.",
        _about_batches(law),
        *law.notes,
        *_beyond(law, points),
    )
    return ExtraAnswer(sentences, data, {f"time to {what} (80 %)": ["" if t is None else _spelled(t) for t in times]})


def break_even(runs: Runs, point: Point, question: Question, pair: tuple[str, str]) -> ExtraAnswer:
    """The bandwidths between nodes at which the second strategy is as fast as the first, at one point."""
    own, other = pair
    result = runs.break_even(point, question, pair)
    where = f"With {count(point.workers, 'worker')}"
    if not result.crossings:
        slower = other if result.faster_above == own else own
        sentence = f"{where} {result.faster_above} is at least as fast as {slower} at any bandwidth between nodes."
    else:
        ends = [f"{_bits(crossing.bytes_per_second)}{_range(crossing)}" for crossing in result.crossings]
        sentence = f"{where} {result.faster_below} is faster below {ends[0]} of usable bandwidth between nodes"
        for crossing, end in zip(result.crossings[1:], ends[1:], strict=True):
            sentence += f", {crossing.faster_below} from there to {end}"
        sentence += f", {result.faster_above} above it."
        if len(ends) > 1:
            sentence += f" The two change places {len(ends)} times."
    return ExtraAnswer(
        (sentence,), {"break_even": {"workers": point.workers, "strategies": [own, other], **asdict(result)}}
    )


def _bits(bytes_per_second: float) -> str:
    return f"{number(8 * bytes_per_second / 1e9)} Gbit/s"


def _range(crossing: Crossing) -> str:
    low = "any" if crossing.low80 is None else _bits(crossing.low80)
    high = "any" if crossing.high80 is None else _bits(crossing.high80)
    return f" (80 %: {low} to {high})"


def _spelled(time: TimeToTarget) -> str:
    return f"{human_seconds(time.seconds)} ({human_seconds(time.low80)} to {human_seconds(time.high80)})"


def _about_batches(law: SamplesToTarget) -> str:
    if law.critical.value < law.smallest_batch:
        return "In these runs the number of samples grows in proportion to the batch: a larger batch saves no updates."
    return (
        f"A global batch of {number(law.critical.value)} (95 %: {number(law.critical.low)} to "
        f"{number(law.critical.high)}) needs twice the samples of a very small one."
    )


def _beyond(law: SamplesToTarget, points: Sequence[Projected]) -> Iterator[str]:
    largest = max((p.point.workers * p.point.batch for p in points if p.point.batch is not None), default=0.0)
    ends = f"{number(law.smallest_batch)} to {number(law.largest_batch)}"
    if largest > REACH * law.largest_batch:
        yield f"Left out: global batches beyond {REACH} times those of the runs that reached the target ({ends})."
    elif largest > law.largest_batch:
        yield f"Extrapolated to a global batch of {number(largest)}; the runs that reached the target had {ends}."

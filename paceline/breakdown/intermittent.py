"""Delays that come and go: one worker late every k-th step or rarely, or all workers pausing at once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.breakdown.own_times import CARRIED, QUEUE, OwnTimes
from paceline.measure.series import Series

_USUAL_SHARE, _LOWEST_SHARE = 0.20, 0.05
_DEVIATIONS = 8
"""A usual step's distance is the one between these two quantiles; a long step is this many distances longer."""

_WORTH_COUNTING = 0.05
"""Share of a step; a step that is longer by less is not a long one."""

_MOSTLY = 0.75
"""From this share of the steps on, a delay is the rule; and this share of what all lost makes it one worker's delay."""

_TOGETHER = 0.6
"""Share of the long steps of a phase that must be everybody's, to call it a pause of all."""

_PATTERN, _REGULAR_GAPS = 4, 0.8
"""So many long steps show a period, if this share of the distances between them are equal."""

_REPEATED, _ALIKE = 3, 0.25
"""So many long steps of nearly one length (within this share of the median) have one origin, if most are such."""

_STANDS_OUT = 0.5
"""Share of a step; delays of different lengths are named only where they are at least so long."""

_CHANCE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Intermittent:
    """A delay in some steps of a run."""

    rank: int | None
    """The worker that is delayed; None: all of them, at once."""

    phase: str
    """The phase in which most of the delay is, or `queue`."""

    by_phase: Mapping[str, Series]
    """Seconds by which it made each phase of each step longer; 0 in most steps."""

    cost_seconds: float
    """What a step would be shorter without it, on average."""

    first_step: int

    @cached_property
    def added(self) -> Series:
        """Seconds by which it made each step longer."""
        return np.asarray(sum(self.by_phase.values()))

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps that it made longer."""
        carried = self.phase in CARRIED and (self.rank is not None or self.phase != "exchange")
        return [int(step) + self.first_step - carried for step in np.flatnonzero(self.added)]

    @property
    def seconds(self) -> float:
        """How long it lasts when it happens: the median."""
        return float(np.median(self.added[self.added > 0]))

    @property
    def every(self) -> int | None:
        """Its period in steps; None where it is not regular."""
        return period(self.added)


def period(added: Series) -> int | None:
    """The distance between consecutive long steps, if nearly all are equal and the whole run has them; else None."""
    steps = np.flatnonzero(added)
    if len(steps) < _PATTERN:
        return None
    gaps = np.diff(steps)
    usual = int(np.median(gaps))
    regular = usual > 1 and (gaps == usual).mean() >= _REGULAR_GAPS and len(steps) * usual >= _REGULAR_GAPS * len(added)
    return usual if regular else None


def intermittent(own: OwnTimes, *, noticeable: float) -> tuple[Intermittent, ...]:
    """The delays that come and go and cost at least `noticeable` seconds per step on average."""
    step = float(np.median(own.total.max(axis=0) + own.shared))
    least = _WORTH_COUNTING * step
    added = {name: np.array([long_steps(row, least) for row in rows]) for name, rows in own.parts.items()}
    found: list[Intermittent] = []
    stalls = _prominent(long_steps(own.shared, least), step)
    pauses = {name: _together(np.array([_prominent(row, step) for row in rows])) for name, rows in added.items()}
    for name, seconds in (("exchange", stalls), *pauses.items()):
        if name != QUEUE and seconds.mean() >= noticeable and (_has_one_origin(own, seconds) or _long(seconds, step)):
            found.append(_delay(own, None, name, seconds, float(seconds.mean())))
            if seconds is not stalls:
                added[name] = _beyond(added[name], seconds, least)
    if len(own.total) == 1:  # what one worker does, all do
        return tuple(found)
    for name, rows in added.items():
        for rank, seconds in enumerate(rows):
            alike = _alike(_prominent(seconds, step))
            cost = _cost(own, rank, alike)
            if name != QUEUE and cost >= noticeable and (_has_one_origin(own, alike) or _long(alike, step)):
                found.append(_delay(own, rank, name, alike, cost))
                added[name][rank] = np.where(alike > 0, 0.0, seconds)
    return (*found, *_of_one_worker(own, added, noticeable, step))


def long_steps(seconds: Series, least: float) -> Series:
    """By how much each step is longer than a usual one; 0 in usual steps, and everywhere where long ones are the rule.

    Usual steps are described by the lowest fifth, so that as many as three of four steps may be long.
    """
    if not len(seconds):
        return np.zeros(0)
    lowest, usual = np.quantile(seconds, (_LOWEST_SHARE, _USUAL_SHARE))
    beyond = max(least, _DEVIATIONS * float(usual - lowest))
    long = seconds > usual + beyond
    if long.mean() >= _MOSTLY:
        return np.zeros(len(seconds))
    return np.asarray(np.where(long, seconds - np.median(seconds[~long]), 0.0))


def _prominent(seconds: Series, step: float) -> Series:
    """Only the very long steps, where they are most of what is lost: many small delays of a busy machine hide them."""
    very_long = np.where(seconds >= _STANDS_OUT * step, seconds, 0.0)
    return very_long if very_long.sum() >= _MOSTLY * seconds.sum() else seconds


def _together(rows: Series) -> Series:
    """What all workers lose in the same steps; nothing where that is the exception."""
    common = rows.min(axis=0)
    often = (common > 0).sum() >= _TOGETHER * (rows > 0).sum(axis=1).max()
    return common if often else np.zeros_like(common)


def _beyond(rows: Series, common: Series, least: float) -> Series:
    rest = rows - common
    return np.asarray(np.where(rest > least, rest, 0.0))


def _alike(seconds: Series) -> Series:
    """The long steps of nearly one length, where they are most of them: no chance decides which worker has those."""
    sizes = seconds[seconds > 0]
    if len(sizes) < _REPEATED:
        return np.zeros_like(seconds)
    usual = float(np.median(sizes))
    alike = np.where(np.abs(seconds - usual) <= _ALIKE * usual, seconds, 0.0)
    often = (alike > 0).sum() >= max(_REPEATED, _TOGETHER * len(sizes))
    return alike if often else np.zeros_like(seconds)


def _has_one_origin(own: OwnTimes, seconds: Series) -> bool:
    """Whether long steps are regular or of one length. Where the queue is not known, only the former shows it:

    waiting for a busy core is then part of the phases, and the system's slices have one length.
    """
    return period(seconds) is not None or (QUEUE in own.parts and bool(_alike(seconds).any()))


def _long(seconds: Series, step: float) -> bool:
    """Whether the long steps are so long that they are no noise."""
    return bool(seconds.any()) and float(np.median(seconds[seconds > 0])) >= _STANDS_OUT * step


def _of_one_worker(own: OwnTimes, added: dict[str, Series], noticeable: float, step: float) -> Sequence[Intermittent]:
    """The worker that has nearly all of the remaining long steps, more than by chance; otherwise they take turns."""
    together = np.asarray(sum(added.values()))
    delays = np.array([_prominent(row, step) for row in together])
    costs = [_cost(own, rank, seconds) for rank, seconds in enumerate(delays)]
    rank = int(np.argmax(costs))
    if costs[rank] < max(noticeable, _MOSTLY * sum(costs)) or not _long(delays[rank], step):
        return ()
    counts = (delays > 0).sum(axis=1)
    if counts.sum() > counts[rank] and _by_chance(int(counts[rank]), int(counts.sum()), len(delays)) > _CHANCE:
        return ()
    by_phase = {name: np.where(delays[rank] > 0, rows[rank], 0.0) for name, rows in added.items()}
    phase = max(by_phase, key=lambda name: float(by_phase[name].sum()))
    return (
        Intermittent(rank=rank, phase=phase, by_phase=by_phase, cost_seconds=costs[rank], first_step=own.first_step),
    )


def _by_chance(own: int, events: int, workers: int) -> float:
    """Probability that some worker has so many of the events or more, if each is equally likely to have one."""
    return min(1.0, workers * at_least(own, events, 1 / workers))


def at_least(hits: int, trials: int, chance: float) -> float:
    """Probability of so many hits or more in so many trials, each a hit with this chance."""
    return math.fsum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(hits, trials + 1))


def _cost(own: OwnTimes, rank: int, seconds: Series) -> float:
    """Mean over the steps of how much earlier the last worker would arrive without this worker's delay.

    Where nobody waits for it, it makes only its own steps longer, which are one of n.
    """
    if not own.barrier:
        return float(seconds.mean()) / len(own.total)
    without = own.total.copy()
    without[rank] -= seconds
    return float((own.total.max(axis=0) - without.max(axis=0)).mean())


def _delay(own: OwnTimes, rank: int | None, phase: str, seconds: Series, cost: float) -> Intermittent:
    return Intermittent(
        rank=rank, phase=phase, by_phase={phase: seconds.copy()}, cost_seconds=cost, first_step=own.first_step
    )

"""The steps of a setting, one by one: what comes and goes in them, and what remains without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.breakdown.intermittent import Intermittent, intermittent
from paceline.breakdown.own_times import QUEUE, OwnTimes, own_times
from paceline.breakdown.setting import MeasuredSetting, Worker
from paceline.measure.series import Series
from paceline.record_parts import PHASES, Phases

ENOUGH_STEPS = 8
"""Fewer steps cannot show that a worker is late repeatedly."""

NOTICEABLE = 0.01
"""Share of a step; anything that takes less is not called a cause."""


@dataclass(frozen=True, kw_only=True)
class Recurring:
    """A delay that comes and goes, over all repeats."""

    rank: int | None
    """The worker that is delayed; None: all of them, at once."""

    phase: str
    seconds: float
    """How long it lasts when it happens."""

    cost_seconds: float
    """What a step would be shorter without it, on average."""

    long_steps: int
    steps: int
    every: int | None
    """Its period in steps; None where it is not regular."""

    examples: tuple[int, ...]
    """Numbers of the first long steps of the first repeat that has any."""

    stretch: tuple[int, int] | None
    """The first and the last of the long steps, where they follow one another."""


@dataclass(frozen=True)
class Steps:
    """The steps of one setting; empty where a sidecar is missing or the steps are too few."""

    setting: MeasuredSetting

    @cached_property
    def own(self) -> tuple[OwnTimes, ...]:
        """The own times of every repeat."""
        if self.setting.steps_timed < ENOUGH_STEPS:
            return ()
        together = self.setting.traffic.synchronous
        rows = [own_times(run, synchronous=together) for run in self.setting.runs]
        known = tuple(row for row in rows if row is not None)
        return known if len(known) == len(rows) else ()

    @cached_property
    def _delays(self) -> tuple[tuple[Intermittent, ...], ...]:
        return tuple(intermittent(own, noticeable=NOTICEABLE * self.setting.step_seconds) for own in self.own)

    @cached_property
    def recurring(self) -> tuple[Recurring, ...]:
        """What comes and goes, the costliest first."""
        keys = dict.fromkeys((delay.rank, delay.phase) for run in self._delays for delay in run)
        found = (self._recurring([d for run in self._delays for d in run if (d.rank, d.phase) == key]) for key in keys)
        return tuple(sorted(found, key=lambda one: -one.cost_seconds))

    def _recurring(self, delays: Sequence[Intermittent]) -> Recurring:
        first = delays[0]
        periods = {delay.every for delay in delays}
        sizes = np.concatenate([delay.added[delay.added > 0] for delay in delays])
        return Recurring(
            rank=first.rank,
            phase=first.phase,
            seconds=float(np.median(sizes)),
            cost_seconds=sum(delay.cost_seconds for delay in delays) / len(self.own),
            long_steps=len(sizes),
            steps=sum(len(own.shared) for own in self.own),
            every=periods.pop() if len(periods) == 1 else None,
            examples=tuple(first.steps[:3]),
            stretch=_stretch(first.steps) if len(delays) == 1 else None,
        )

    @cached_property
    def steady_parts(self) -> tuple[Mapping[str, Series], ...]:
        """For every repeat: the parts of each worker's own time without what comes and goes."""
        return tuple(_without(own, delays) for own, delays in zip(self.own, self._delays, strict=True))

    @cached_property
    def steady(self) -> tuple[Series, ...]:
        """For every repeat: what each worker takes from one exchange to the next without what comes and goes."""
        return tuple(np.asarray(sum(parts.values())) for parts in self.steady_parts)

    def removed(self, rank: int, phase: str) -> float:
        """Mean seconds per step of a worker's phase (or `queue`) that come and go, its own and everybody's."""
        return self._added(rank, phase) + self.pauses(phase)

    def pauses(self, phase: str) -> float:
        """Mean seconds per step of a phase in which all workers pause at once."""
        return self._added(None, phase)

    def _added(self, rank: int | None, phase: str) -> float:
        delays = [delay for run in self._delays for delay in run if delay.rank == rank and phase in delay.by_phase]
        return sum(float(delay.by_phase[phase].mean()) for delay in delays) / max(1, len(self.own))

    def phases(self, worker: Worker) -> Phases:
        """A worker's mean phases without what comes and goes, and without queueing for a core where it was measured."""
        queued = worker.queued_phases(self.setting.spec.workers_per_device) or {}
        parts = {
            name: worker.phases.of(name) - self.removed(worker.rank, name) - queued.get(name, 0.0) for name in PHASES
        }
        return Phases(**{name: max(0.0, seconds) for name, seconds in parts.items()})

    def queued(self, worker: Worker) -> float | None:
        """Mean seconds per step of a worker's own phases in the queue, without those that come and go."""
        queued = worker.queued_phases(self.setting.spec.workers_per_device)
        return None if queued is None else max(0.0, sum(queued.values()) - self.removed(worker.rank, QUEUE))


def _stretch(steps: Sequence[int]) -> tuple[int, int] | None:
    """The first and the last of several steps that follow one another; None where they do not."""
    together = len(steps) > 1 and steps[-1] - steps[0] + 1 == len(steps)
    return (steps[0], steps[-1]) if together else None


def _without(own: OwnTimes, delays: Sequence[Intermittent]) -> Mapping[str, Series]:
    parts = {name: rows.copy() for name, rows in own.parts.items()}
    for delay in delays:
        for name, seconds in delay.by_phase.items():
            if delay.rank is not None:
                parts[name][delay.rank] -= seconds
            elif name != "exchange":  # that of all comes after the arrival
                parts[name] -= seconds
    return parts

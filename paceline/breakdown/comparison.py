"""Compare settings with their one-worker baselines: the gap to ideal, and which workers are stragglers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.breakdown.arrivals import LateWorker, late_workers, uneven_worker
from paceline.breakdown.gap import Gap, gap
from paceline.breakdown.setting import MeasuredSetting, Worker, mean
from paceline.breakdown.steps import NOTICEABLE, Steps
from paceline.measure.runs import StoredRun
from paceline.measure.scaling import Scaling, ScalingRow, scaling_rows
from paceline.measure.stats import Figure
from paceline.record_parts import PhaseName, Phases

_NO_GAP = 0.02
"""Share of a step; where there is no interval, a smaller gap counts as noise."""


@dataclass(frozen=True)
class Comparison:
    """A setting with its figures and its baseline."""

    scaling: ScalingRow
    setting: MeasuredSetting
    baseline: MeasuredSetting | None
    """None where there is no baseline, or where this setting is the baseline."""

    @property
    def efficiency(self) -> Figure | None:
        """By median rates, with its interval; None without a baseline, or where it is not known."""
        return self.scaling.efficiency if self.baseline else None

    @cached_property
    def gap(self) -> Gap | None:
        """The gap to ideal; None without a baseline."""
        return gap(self.setting, self.baseline) if self.baseline else None

    @property
    def clear_gap(self) -> Gap | None:
        """The gap to ideal; None without a baseline, where efficiency is not known or the gap is within noise."""
        return None if self.gap is None or self._is_noise(self.gap) else self.gap

    def _is_noise(self, gap: Gap) -> bool:
        if gap.seconds <= 0 or self.efficiency is None:
            return True
        if self.scaling.below_ideal is not None:
            return not self.scaling.below_ideal
        return gap.seconds < _NO_GAP * gap.step_seconds  # timed over fixed steps, so there is no interval

    @cached_property
    def steps(self) -> Steps:
        """The steps of this setting one by one."""
        return Steps(self.setting)

    @cached_property
    def baseline_steps(self) -> Steps | None:
        """The steps of the baseline one by one."""
        return Steps(self.baseline) if self.baseline else None

    @cached_property
    def slow(self) -> tuple[LateWorker, ...]:
        """Stragglers: workers that arrive late at the exchange in most steps, the latest first."""
        return late_workers(self.steps)

    @cached_property
    def uneven(self) -> LateWorker | None:
        """Without a barrier: the worker whose steps are longest; the others do not wait for it."""
        return uneven_worker(self.steps)

    @cached_property
    def peers(self) -> tuple[Worker, ...]:
        """The workers that are not stragglers; a straggler's excess is a cause of its own and must not count twice."""
        slow = {lateness.rank for lateness in self.slow} | ({self.uneven.rank} if self.uneven else set())
        return tuple(worker for worker in self.setting.workers if worker.rank not in slow)

    @cached_property
    def phases(self) -> Phases:
        """Mean phases over the peers, without delays that come and go and, where measured, without queueing."""
        return Phases.mean([self.steps.phases(worker) for worker in self.peers])

    @cached_property
    def baseline_phases(self) -> Phases | None:
        """The same of the baseline."""
        steps = self.baseline_steps
        return Phases.mean([steps.phases(worker) for worker in steps.setting.workers]) if steps else None

    @cached_property
    def queued(self) -> float | None:
        """Seconds per step for which the peers queued for a core, beyond the ideal; None where it was not measured."""
        own = mean(self.steps.queued(worker) for worker in self.peers)
        if own is None or self.baseline_steps is None or self.gap is None:
            return own
        base = mean(self.baseline_steps.queued(worker) for worker in self.baseline_steps.setting.workers)
        return None if base is None else own - self.gap.worker_scale * base

    def excess(self, *names: PhaseName) -> float:
        """Seconds per step that these phases take beyond the ideal; their whole time where there is no baseline."""
        if self.gap is None or self.baseline_phases is None:
            return math.fsum(self.phases.of(name) for name in names)
        scale, base = self.gap.worker_scale, self.baseline_phases
        own = (self.phases.of(name) + self.usual_pauses(name) for name in names)
        return math.fsum(own) - scale * math.fsum(base.of(name) + self.baseline_pauses(name) for name in names)

    def baseline_pauses(self, phase: str) -> float:
        """Seconds of the phase in which the baseline pauses, in one of its steps."""
        return self.baseline_steps.pauses(phase) if self.baseline_steps else 0.0

    def usual_pauses(self, phase: str) -> float:
        """Seconds of pauses that the baseline has, too: they belong to the phase; only more than that is a cause."""
        scale = self.gap.worker_scale if self.gap else 0.0
        return min(self.steps.pauses(phase), scale * self.baseline_pauses(phase))

    def noticeable(self, seconds: float) -> bool:
        """Whether this many seconds per step are worth mentioning."""
        return seconds >= NOTICEABLE * self.setting.step_seconds


def comparisons(runs: Sequence[StoredRun], *, scaling: Scaling | None = None) -> Iterator[Comparison]:
    """Group runs into settings, each beside its baseline, in order of first appearance.

    `scaling` comes from the study of the runs; without a study `scaling_rows` decides.
    """
    by_record = {id(run.record): run for run in runs}
    for row in scaling_rows([run.record for run in runs], scaling=scaling):
        repeats, alone = (tuple(by_record[id(record)] for record in part) for part in (row.records, row.baseline))
        is_baseline = any(run is repeats[0] for run in alone)
        yield Comparison(row, MeasuredSetting(repeats), MeasuredSetting(alone) if alone and not is_baseline else None)

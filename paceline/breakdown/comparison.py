"""Settings beside their one-worker baselines: how a step compares with the ideal one, and which workers are slow."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.breakdown.arrivals import LateWorker, slow_workers, uneven_worker
from paceline.breakdown.gap import Gap, gap
from paceline.breakdown.setting import MeasuredSetting, Worker
from paceline.measure.runs import StoredRun
from paceline.measure.scaling import Scaling, ScalingRow, scaling_rows
from paceline.measure.stats import Figure
from paceline.record_parts import PhaseName, Phases

NOTICEABLE = 0.01
"""Share of a step below which nothing is called a cause."""

_NO_GAP = 0.02
"""Share of a step: where there is no interval, a smaller gap is taken for noise."""


@dataclass(frozen=True)
class Comparison:
    """A setting, with its figures, beside its baseline."""

    scaling: ScalingRow
    setting: MeasuredSetting
    baseline: MeasuredSetting | None
    """None where no run is the baseline, or where this setting is."""

    @property
    def efficiency(self) -> Figure | None:
        """By median rates, with its interval; None without a baseline."""
        return self.scaling.efficiency if self.baseline else None

    @cached_property
    def gap(self) -> Gap | None:
        """The distance to ideal; None without a baseline."""
        return gap(self.setting, self.baseline) if self.baseline else None

    @property
    def clear_gap(self) -> Gap | None:
        """The distance to ideal, where there is one that is more than noise."""
        return None if self.gap is None or self._is_noise(self.gap) else self.gap

    def _is_noise(self, gap: Gap) -> bool:
        if gap.seconds <= 0:
            return True
        if self.efficiency is not None and self.efficiency.high is not None:
            return self.efficiency.high >= 1
        return gap.seconds < _NO_GAP * gap.step_seconds

    @cached_property
    def slow(self) -> tuple[LateWorker, ...]:
        """Workers that come late to the exchange again and again, the latest first."""
        return slow_workers(self.setting)

    @cached_property
    def uneven(self) -> LateWorker | None:
        """Without a barrier: the worker whose steps are longer than the others', who do not wait for it."""
        return uneven_worker(self.setting)

    @cached_property
    def peers(self) -> tuple[Worker, ...]:
        """The workers that are not slow: a slow worker's excess is a cause of its own, so it is not counted twice."""
        slow = {lateness.rank for lateness in self.slow} | ({self.uneven.rank} if self.uneven else set())
        return tuple(worker for worker in self.setting.workers if worker.rank not in slow)

    @cached_property
    def phases(self) -> Phases:
        """Mean over the peers."""
        return Phases.mean([worker.phases for worker in self.peers])

    def excess(self, *names: PhaseName) -> float:
        """Seconds per step that these phases take beyond the ideal; all of them where there is no baseline."""
        if self.gap is None or self.baseline is None:
            return math.fsum(self.phases.of(name) for name in names)
        scale, base = self.gap.worker_scale, self.baseline.phases
        return math.fsum(self.phases.of(name) - scale * base.of(name) for name in names)

    def noticeable(self, seconds: float) -> bool:
        """Whether so much of a step deserves a sentence."""
        return seconds >= NOTICEABLE * self.setting.step_seconds


def comparisons(runs: Sequence[StoredRun], *, scaling: Scaling | None = None) -> Iterator[Comparison]:
    """Group runs into settings, each beside its baseline, in order of first appearance.

    `scaling` is what the study of the runs says; runs of no study are compared as `scaling_rows` sees fit.
    """
    by_record = {id(run.record): run for run in runs}
    for row in scaling_rows([run.record for run in runs], scaling=scaling):
        repeats, alone = (tuple(by_record[id(record)] for record in part) for part in (row.records, row.baseline))
        is_baseline = any(run is repeats[0] for run in alone)
        yield Comparison(row, MeasuredSetting(repeats), MeasuredSetting(alone) if alone and not is_baseline else None)

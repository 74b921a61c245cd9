"""What a cause is, and the case that causes are looked for in: one setting, with its baseline where there is one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from paceline.breakdown.arrivals import Lateness, slow_workers, uneven_worker
from paceline.breakdown.gap import Gap, gap
from paceline.breakdown.setting import Setting, Worker
from paceline.record import PHASES

NOTICEABLE = 0.01
"""Share of a step below which nothing is called a cause."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One reason why a step takes as long as it does."""

    name: str
    headline: str
    """How a run is called in which this is the largest cause."""

    seconds: float
    """Of every step: beyond the ideal where there is a baseline, in all where there is none."""

    sentence: str
    evidence: tuple[str, ...]
    remedy: str
    rank: int | None = None
    """The worker it comes from, if it is one."""


@dataclass(frozen=True)
class Case:
    """A setting to be explained."""

    setting: Setting
    baseline: Setting | None = None

    @cached_property
    def gap(self) -> Gap | None:
        """The distance to ideal; None without a baseline."""
        return gap(self.setting, self.baseline) if self.baseline else None

    @cached_property
    def slow(self) -> tuple[Lateness, ...]:
        """Workers that come late to the exchange again and again, the latest first."""
        return slow_workers(self.setting)

    @cached_property
    def uneven(self) -> Lateness | None:
        """Without a barrier: the worker whose steps are longer than the others', who do not wait for it."""
        return uneven_worker(self.setting)

    @cached_property
    def peers(self) -> tuple[Worker, ...]:
        """The workers that are not slow: a slow worker's excess is a cause of its own, so it is not counted twice."""
        slow = {lateness.rank for lateness in self.slow} | ({self.uneven.rank} if self.uneven else set())
        return tuple(worker for worker in self.setting.workers if worker.rank not in slow)

    @cached_property
    def phases(self) -> Mapping[str, float]:
        """Seconds per step, mean over the peers."""
        return {name: math.fsum(w.phases[name] for w in self.peers) / len(self.peers) for name in PHASES}

    def excess(self, *names: str) -> float:
        """Seconds per step that these phases take beyond the ideal; all of them where there is no baseline."""
        scale, base = (self.gap.worker_scale, self.baseline.phases) if self.gap and self.baseline else (0.0, {})
        return math.fsum(self.phases[name] - scale * base.get(name, 0.0) for name in names)

    def noticeable(self, seconds: float) -> bool:
        """Whether so much of a step deserves a sentence."""
        return seconds >= NOTICEABLE * self.setting.step_seconds

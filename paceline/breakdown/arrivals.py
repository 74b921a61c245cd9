"""Find stragglers by when workers arrive at the exchange, because one worker's delay is everybody else's wait."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.breakdown.setting import MeasuredSetting, mean
from paceline.measure.runs import StoredRun
from paceline.measure.series import Series

SYSTEMATIC = 0.75
"""A worker that is late in at least this share of the steps is a straggler; less often is chance."""

WORTH_NAMING = 0.02
"""Share of a step; a worker that is late by less is not called a straggler."""

ENOUGH_STEPS = 8
"""Fewer steps cannot show that a worker is late repeatedly."""


@dataclass(frozen=True)
class LateWorker:
    """A worker's arrival compared with the others'."""

    rank: int
    seconds: float
    """Median of its arrival minus the mean arrival of the workers that are not stragglers."""

    share: float
    """Share of the steps in which it came after the mean of the others or, from the record alone, after all others."""


def slow_workers(setting: MeasuredSetting) -> tuple[LateWorker, ...]:
    """Workers that are late in most steps, the latest first; never all workers."""
    workers = range(len(setting.workers))
    if len(workers) < 2 or not setting.traffic.synchronous or setting.steps_timed < ENOUGH_STEPS:
        return ()
    late = _late(setting, dict.fromkeys(workers, frozenset(workers)))
    slow = frozenset(rank for rank, lateness in late.items() if _is_slow(lateness, setting))
    if len(slow) == len(workers):
        return ()
    if len(slow) > 1:  # several stragglers raise the mean: compare them with the punctual workers
        punctual = frozenset(workers) - slow
        late = _late(setting, dict.fromkeys(slow, punctual))
    return tuple(sorted((late[rank] for rank in slow), key=lambda lateness: -lateness.seconds))


def uneven_worker(setting: MeasuredSetting) -> LateWorker | None:
    """Without a barrier: the worker whose own step is longest, and by how much; None where they hardly differ."""
    workers = setting.workers
    if setting.traffic.synchronous or len(workers) < 2 or setting.steps_timed < ENOUGH_STEPS:
        return None
    own = {w.rank: sum(seconds for name, seconds in w.phases if name != "wait") for w in workers}
    slowest = max(own, key=lambda rank: own[rank])
    delay = own[slowest] - (mean(seconds for rank, seconds in own.items() if rank != slowest) or 0.0)
    return LateWorker(slowest, delay, 1.0) if delay >= WORTH_NAMING * setting.step_seconds else None


def _is_slow(lateness: LateWorker, setting: MeasuredSetting) -> bool:
    return lateness.share >= SYSTEMATIC and lateness.seconds >= WORTH_NAMING * setting.step_seconds


def _late(setting: MeasuredSetting, others_of: dict[int, frozenset[int]]) -> dict[int, LateWorker]:
    """Every worker's lateness against `others_of` it, averaged over the repeats."""
    delays: dict[int, list[tuple[float, float]]] = {rank: [] for rank in others_of}
    for run in setting.runs:
        arrivals = arrivals_of(run)
        for rank, others in others_of.items():
            if arrivals is not None:
                delay = arrivals[rank] - arrivals[sorted(others - {rank})].mean(axis=0)
                delays[rank].append((float(np.median(delay)), float((delay > 0).mean())))
                continue
            row = run.record.per_worker[rank]
            if row.late_seconds is not None and row.last_share is not None:
                delays[rank].append((row.late_seconds, row.last_share))
    return {
        rank: LateWorker(rank, mean(seconds for seconds, _ in rows) or 0.0, mean(share for _, share in rows) or 0.0)
        for rank, rows in delays.items()
    }


def arrivals_of(run: StoredRun) -> Series | None:
    """Arrivals of all workers in the timed steps, workers × steps; None without the sidecar."""
    if run.series is None:
        return None
    return np.array([worker.arrival[run.timed] for worker in run.series])


def systematic_wait(slow: Sequence[LateWorker], workers: int) -> float:
    """Mean wait that stragglers alone cause: the latest one's delay minus the mean delay over all workers."""
    if not slow:
        return 0.0
    return slow[0].seconds - sum(lateness.seconds for lateness in slow) / workers


def spread_seconds(setting: MeasuredSetting) -> float | None:
    """How much a worker's arrival varies from step to step: standard deviation around its own mean."""
    variances = []
    for run in setting.runs:
        arrivals = arrivals_of(run)
        if arrivals is None or arrivals.shape[1] < ENOUGH_STEPS:
            return None
        places = arrivals - arrivals.mean(axis=0)
        n = len(places)
        # The mean of a step comes from the same n arrivals, which lowers the variance by a factor of (n - 1)/n.
        variances.append(float(places.var(axis=1).mean()) * n / (n - 1))
    return float(np.sqrt(np.mean(variances)))

"""Who comes late to the exchange: compared by arrivals, because one worker's delay hides in everybody's wait."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.breakdown.setting import MeasuredSetting, mean
from paceline.measure.runs import StoredRun
from paceline.measure.series import Series

SYSTEMATIC = 0.75
"""A worker that is late in this share of the steps is slow; one that is late less often only had its turn."""

WORTH_NAMING = 0.02
"""Of a step: a worker that is late by less is not called slow."""

ENOUGH_STEPS = 8
"""From fewer steps nobody can be told to be slow again and again."""


@dataclass(frozen=True)
class LateWorker:
    """A worker's arrival compared with the others'."""

    rank: int
    seconds: float
    """Median of its arrival less the mean arrival of the workers that are not slow."""

    share: float
    """Of the steps in which it was late: after the mean of the others or, from the record alone, after all of them."""


def slow_workers(setting: MeasuredSetting) -> tuple[LateWorker, ...]:
    """Workers that are late again and again, the latest first; at least one worker is never slow."""
    workers = range(len(setting.workers))
    if len(workers) < 2 or not setting.traffic.synchronous or setting.steps_timed < ENOUGH_STEPS:
        return ()
    late = _late(setting, dict.fromkeys(workers, frozenset(workers)))
    slow = frozenset(rank for rank, lateness in late.items() if _is_slow(lateness, setting))
    if len(slow) == len(workers):
        return ()
    if len(slow) > 1:  # those late because of one another's company are compared with the punctual ones
        punctual = frozenset(workers) - slow
        late = _late(setting, dict.fromkeys(slow, punctual))
    return tuple(sorted((late[rank] for rank in slow), key=lambda lateness: -lateness.seconds))


def uneven_worker(setting: MeasuredSetting) -> LateWorker | None:
    """Without a barrier nobody is late: the worker whose own step is longest, and by how much, if that is much."""
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
    found: dict[int, list[tuple[float, float]]] = {rank: [] for rank in others_of}
    for run in setting.runs:
        arrivals = arrivals_of(run)
        for rank, others in others_of.items():
            if arrivals is not None:
                delay = arrivals[rank] - arrivals[sorted(others - {rank})].mean(axis=0)
                found[rank].append((float(np.median(delay)), float((delay > 0).mean())))
                continue
            row = run.record.per_worker[rank]
            if row.late_seconds is not None and row.last_share is not None:
                found[rank].append((row.late_seconds, row.last_share))
    return {
        rank: LateWorker(rank, mean(seconds for seconds, _ in rows) or 0.0, mean(share for _, share in rows) or 0.0)
        for rank, rows in found.items()
    }


def arrivals_of(run: StoredRun) -> Series | None:
    """Arrivals of all workers in the timed steps, workers × steps; None without the sidecar."""
    if run.series is None:
        return None
    return np.array([worker.arrival[run.timed] for worker in run.series])


def systematic_wait(slow: Sequence[LateWorker], workers: int) -> float:
    """Mean wait that slow workers alone make: the latest one's delay, less the mean delay over all workers."""
    if not slow:
        return 0.0
    return slow[0].seconds - sum(lateness.seconds for lateness in slow) / workers


def spread_seconds(setting: MeasuredSetting) -> float | None:
    """How much a worker's arrival varies from step to step: standard deviation around its own usual place."""
    variances = []
    for run in setting.runs:
        arrivals = arrivals_of(run)
        if arrivals is None or arrivals.shape[1] < ENOUGH_STEPS:
            return None
        places = arrivals - arrivals.mean(axis=0)
        n = len(places)
        # A step's own mean is taken from n arrivals, which hides one of n parts of the variance.
        variances.append(float(places.var(axis=1).mean()) * n / (n - 1))
    return float(np.sqrt(np.mean(variances)))

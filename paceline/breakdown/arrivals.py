"""Find stragglers by when workers arrive at the exchange, because one worker's delay is everybody else's wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from paceline.breakdown.intermittent import at_least
from paceline.breakdown.own_times import QUEUE
from paceline.breakdown.setting import MeasuredSetting, mean
from paceline.breakdown.steps import ENOUGH_STEPS, Steps
from paceline.measure.series import Series

SYSTEMATIC = 0.75
"""A worker that is late in at least this share of the steps is a straggler; less often is chance."""

_CHANCE = 0.01
"""And the probability of being late so often by chance, as heads of a coin, is at most this."""

WORTH_NAMING = 0.02
"""Share of a step; a worker that is late by less is not called a straggler."""

_MANY_STEPS = 64
"""In so many steps, three quarters are never chance."""

_STANDARD_ERRORS = 4.0
"""A queue's length varies by chance: one is longer if its mean is so by this many standard errors."""

_SPARED_ERRORS = 2.0
"""And shorter by this many, which only lowers what is claimed."""


@dataclass(frozen=True)
class LateWorker:
    """A worker's arrival compared with the others'."""

    rank: int
    seconds: float
    """How much later than the mean of the workers that are not stragglers it arrives."""

    share: float
    """Share of the steps in which it came after the mean of the others or, from the record alone, after all others."""

    longer: Mapping[str, float] = field(default_factory=dict)
    """By part of its own time: the seconds by which it is longer than the others' in most steps."""

    parts_known: bool = False
    """Whether queueing for a core is apart from the phases; otherwise it is noise in each of them."""


def late_workers(steps: Steps) -> tuple[LateWorker, ...]:
    """Workers that are late in most steps, the latest first; never all workers."""
    setting = steps.setting
    workers = range(len(setting.workers))
    if len(workers) < 2 or not setting.traffic.synchronous or setting.steps_timed < ENOUGH_STEPS:
        return ()
    late = _late(steps, dict.fromkeys(workers, frozenset(workers)))
    slow = frozenset(rank for rank, lateness in late.items() if _is_slow(lateness, setting))
    if len(slow) == len(workers):
        return ()
    if len(slow) > 1:  # several stragglers raise the mean: compare them with the punctual workers
        punctual = frozenset(workers) - slow
        late = _late(steps, dict.fromkeys(slow, punctual))
    return tuple(sorted((late[rank] for rank in slow), key=lambda lateness: -lateness.seconds))


def uneven_worker(steps: Steps) -> LateWorker | None:
    """Without a barrier: the worker whose own step is longest, and by how much; None where they hardly differ."""
    setting = steps.setting
    workers = setting.workers
    if setting.traffic.synchronous or len(workers) < 2 or setting.steps_timed < ENOUGH_STEPS:
        return None
    own = {w.rank: sum(seconds for name, seconds in steps.phases(w) if name != "wait") for w in workers}
    own = {w.rank: own[w.rank] + (steps.queued(w) or 0.0) for w in workers}
    slowest = max(own, key=lambda rank: own[rank])
    delay = own[slowest] - (mean(seconds for rank, seconds in own.items() if rank != slowest) or 0.0)
    return LateWorker(slowest, delay, 1.0) if delay >= WORTH_NAMING * setting.step_seconds else None


def _is_slow(lateness: LateWorker, setting: MeasuredSetting) -> bool:
    queue_known = lateness.parts_known and any(seconds > 0 for seconds in lateness.longer.values())
    often = _is_systematic(lateness.share, setting.steps_timed) or queue_known
    return often and lateness.seconds >= WORTH_NAMING * setting.step_seconds


def _late(steps: Steps, others_of: Mapping[int, frozenset[int]]) -> dict[int, LateWorker]:
    """Every worker's lateness against `others_of` it, averaged over the repeats."""
    found = {}
    for rank, others in others_of.items():
        among = sorted(others - {rank})
        if steps.own:
            each = zip(steps.steady_parts, steps.steady, strict=True)
            rows = [_compared(parts, total, rank, among) for parts, total in each]
        else:
            known = (run.record.per_worker[rank] for run in steps.setting.runs)
            rows = [LateWorker(rank, row.late_seconds or 0.0, row.last_share or 0.0) for row in known]
        found[rank] = LateWorker(
            rank,
            mean(row.seconds for row in rows) or 0.0,
            mean(row.share for row in rows) or 0.0,
            {name: sum(row.longer.get(name, 0.0) for row in rows) / len(rows) for row in rows for name in row.longer},
            all(row.parts_known for row in rows),
        )
    return found


def _compared(parts: Mapping[str, Series], total: Series, rank: int, among: Sequence[int]) -> LateWorker:
    """One repeat: what is longer in most steps or, where no part is, the median of the whole delay."""
    delay = total[rank] - total[among].mean(axis=0)
    longer = {}
    for name, rows in parts.items():
        more = rows[rank] - rows[among].mean(axis=0)
        if abs(np.median(more)) >= WORTH_NAMING / 2 * total.mean() and _repeats(name, more):
            longer[name] = float(more.mean() if name == QUEUE else np.median(more))
    by_parts = QUEUE in parts and max(longer.values(), default=0.0) > 0
    if by_parts and QUEUE not in longer and (spared := _spared(parts[QUEUE], rank, among)):
        longer[QUEUE] = -spared
    late = sum(longer.values()) if by_parts else float(np.median(delay))
    return LateWorker(rank, late, float((delay > 0).mean()), longer, QUEUE in parts)


def _spared(queue: Series, rank: int, among: Sequence[int]) -> float:
    """Seconds by which a worker queues less than the others: while it is held up, those on its core get on with theirs.

    Other processes make a queue vary from step to step, so its mean decides, and not most of the steps.
    """
    less = queue[among].mean(axis=0) - queue[rank]
    certain = less.mean() > _SPARED_ERRORS * less.std() / np.sqrt(len(less))
    return float(less.mean()) if certain else 0.0


def _repeats(name: str, more: Series) -> bool:
    """Whether a worker's part is longer (or shorter) than the others' in most steps."""
    share = max(float((more > 0).mean()), float((more < 0).mean()))
    error = float(more.std()) / np.sqrt(len(more)) if name == QUEUE else 0.0
    return _is_systematic(share, len(more)) and abs(float(more.mean())) >= _STANDARD_ERRORS * error


def _is_systematic(share: float, steps: int) -> bool:
    """Whether so many steps are more than chance; of few steps, three quarters are not."""
    if share < SYSTEMATIC:
        return False
    return steps >= _MANY_STEPS or at_least(round(share * steps), steps, 0.5) <= _CHANCE


def systematic_wait(slow: Sequence[LateWorker], workers: int) -> float:
    """Mean wait that stragglers alone cause: the latest one's delay minus the mean delay over all workers."""
    if not slow:
        return 0.0
    return slow[0].seconds - sum(lateness.seconds for lateness in slow) / workers


def steady_wait(steps: Steps) -> float:
    """Mean seconds per step for which workers wait for the last one, without what comes and goes."""
    if not steps.steady:
        return steps.setting.phases.wait
    return float(np.mean([(rows.max(axis=0) - rows.mean(axis=0)).mean() for rows in steps.steady]))


def spread_seconds(steps: Steps) -> float | None:
    """How much a worker's arrival varies from step to step: standard deviation around its own mean."""
    variances = []
    for rows in steps.steady:
        places = rows - rows.mean(axis=0)
        n = len(places)
        # The mean of a step comes from the same n arrivals, which lowers the variance by a factor of (n - 1)/n.
        variances.append(float(places.var(axis=1).mean()) * n / (n - 1))
    return float(np.sqrt(np.mean(variances))) if variances else None


def agreement_seconds(setting: MeasuredSetting) -> float:
    """Mean seconds per step for which workers wait for an agreement when to stop, beyond waiting for the last of them.

    A worker that comes to the agreement before another waits for it: that is the other one's delay.
    """
    waits = []
    for run in setting.runs:
        if run.series is None or not len(run.series[0].agreed):
            return 0.0
        agreed, *parts = (
            np.array([worker.of_phase(name)[run.timed] for worker in run.series])
            for name in ("agreed", "arrival", "exchange", "update", "other")
        )
        came = np.sum(parts, axis=0)
        waits.append(float(np.clip(agreed - (came.max(axis=0) - came), 0, None).mean()))
    return sum(waits) / len(waits)

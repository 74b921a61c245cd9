"""What each worker does itself between two exchanges, step by step; the slowest of them makes the others wait."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.measure.runs import StoredRun
from paceline.measure.series import THREAD_PHASES, Series, WorkerSeries

CARRIED = ("exchange", "update", "other")
"""Phases after an exchange: what a worker loses in them makes it late for the next one."""

QUEUE = "queue"
"""The part of a worker's own time in which it was ready to run but waited for a core; no other part includes it."""

_MEASURED = 0.9
"""Share of the steps whose queue must be known; otherwise it stays part of the phases."""


@dataclass(frozen=True, eq=False)
class OwnTimes:
    """Seconds of the timed steps: what every worker did itself up to each arrival, and the exchange of all after it."""

    parts: Mapping[str, Series]
    """By phase, and `queue`: workers × steps. The last one's phases after an exchange count for the next step."""

    shared: Series
    """From the last worker's arrival to the first worker's end of the exchange, for each step."""

    first_step: int
    """Number of the first timed step."""

    barrier: bool
    """Whether workers wait for one another in every step."""

    @cached_property
    def total(self) -> Series:
        """What each worker takes from one exchange to the next: workers × steps."""
        return np.asarray(sum(self.parts.values()))


def own_times(run: StoredRun, *, synchronous: bool) -> OwnTimes | None:
    """The own times of a run's timed steps; None without the sidecar."""
    workers, timed = run.series, run.timed
    if workers is None or not len(workers[0].arrival):
        return None
    carried = {"update": _rows(workers, "update"), "other": _rows(workers, "other")}
    arrivals, exchange = _rows(workers, "arrival"), _rows(workers, "exchange")
    if synchronous and len(workers) > 1:
        ends = arrivals + exchange
        shared = np.maximum(ends.min(axis=0) - arrivals.max(axis=0), 0.0)
        carried["exchange"] = ends - ends.min(axis=0)
    else:
        shared, carried["exchange"] = exchange.mean(axis=0), np.zeros_like(exchange)
    parts = {name: _before(carried[name], timed) for name in CARRIED}
    parts |= {name: _rows(workers, name)[:, timed] for name in ("input", "forward", "backward")}
    return OwnTimes(_without_queue(parts, workers, timed), shared[timed], timed.start, synchronous)


def _rows(workers: Sequence[WorkerSeries], name: str) -> Series:
    steps = min(len(worker.end) for worker in workers)
    return np.array([worker.of_phase(name)[:steps] for worker in workers])


def _before(rows: Series, timed: slice) -> Series:
    """Each timed step's value of the step before; 0 before the first step."""
    shifted = np.concatenate([np.zeros((len(rows), 1)), rows[:, :-1]], axis=1)
    return np.asarray(shifted[:, timed])


def _without_queue(parts: dict[str, Series], workers: Sequence[WorkerSeries], timed: slice) -> Mapping[str, Series]:
    """Take the time in the queue out of the phases, where it was measured in nearly all steps."""
    if any(worker.thread_queued.ndim != 2 for worker in workers):
        return parts
    steps = min(len(worker.end) for worker in workers)
    tables = np.array([worker.thread_queued[:steps] for worker in workers])
    if np.isfinite(tables[:, timed]).mean() < _MEASURED:
        return parts
    tables = np.nan_to_num(tables)
    queue = np.zeros_like(parts["forward"])
    for column, name in enumerate(THREAD_PHASES):
        rows = tables[:, :, column]
        queued = np.minimum(_before(rows, timed) if name in CARRIED else rows[:, timed], parts[name])
        parts[name] = parts[name] - queued
        queue += queued
    return {**parts, QUEUE: queue}

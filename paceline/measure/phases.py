"""The phases of a step for each worker, and who arrived last at the exchange."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.measure.series import THREAD_PHASES, Series, WorkerSeries
from paceline.record_parts import Phases, ThreadSeconds


def phases_of(workers: Sequence[WorkerSeries], timed: Sequence[slice], *, synchronous: bool) -> list[Phases]:
    """Each worker's mean seconds per timed step; they add up to its step.

    Where workers wait for one another, wait_r = A − A_r with A the last arrival of all, and exchange is the rest until
    the end of the exchange. Otherwise wait is the time for which a staleness bound blocked the worker. Waiting for the
    agreement when to stop is added to either.
    """
    parts = list(zip(workers, timed, strict=True))
    blocked = [w.exchange[part] for w, part in parts]
    waits = [w.held[part] for w, part in parts]
    if synchronous:
        arrivals = _arrivals(workers, timed)
        waits = [np.clip(arrivals.max(axis=0) - own, 0, b) for own, b in zip(arrivals, blocked, strict=True)]
    return [
        Phases(
            input=float(w.input[part].mean()),
            forward=float(w.forward[part].mean()),
            backward=float(w.backward[part].mean()),
            wait=float(wait.mean()) + agreed_seconds(w, part),
            exchange=float((exchange - wait).mean()),
            update=float(w.update[part].mean()),
            other=float(w.other[part].mean()),
        )
        for (w, part), exchange, wait in zip(parts, blocked, waits, strict=True)
    ]


def agreed_seconds(worker: WorkerSeries, timed: slice) -> float:
    """Mean seconds per timed step in which a worker waited for the agreement when to stop."""
    return float(worker.agreed[timed].mean()) if len(worker.agreed) else 0.0


def thread_seconds(series: Series, timed: slice) -> ThreadSeconds | None:
    """The mean over the timed steps in which the thread's times were read; None where there is none."""
    rows = series[timed]
    rows = rows[np.isfinite(rows).all(axis=1)] if rows.ndim == 2 else rows[:0]
    if not len(rows):
        return None
    return ThreadSeconds(**dict(zip(THREAD_PHASES, map(float, rows.mean(axis=0)), strict=True)))


@dataclass(frozen=True)
class Lateness:
    """When a worker arrived at the exchange, compared with the others."""

    last_share: float
    """Share of the steps in which it arrived last."""

    late_seconds: float
    """Median of its arrival minus the mean arrival of the others; negative where it is early."""


def lateness_of(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> list[Lateness]:
    """The lateness of every worker; durations hide it, because all others wait for a delayed worker."""
    arrivals = _arrivals(workers, timed)
    last = arrivals.argmax(axis=0)
    others = (arrivals.sum(axis=0) - arrivals) / (len(workers) - 1)
    return [
        Lateness(float((last == rank).mean()), float(np.median(arrivals[rank] - others[rank])))
        for rank in range(len(workers))
    ]


def _arrivals(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> np.ndarray:
    return np.array([w.arrival[part] for w, part in zip(workers, timed, strict=True)])

"""From every worker's series to the figures of a record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.measure.stats import Series, median_interval, warmup_steps, windows

WorkerSeries = Mapping[str, Series]
_OWN_PHASES = ("input", "forward", "backward", "update", "other")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What was timed, and how fast it was."""

    warmup_steps: int
    steps_timed: int
    samples_timed: int
    seconds_timed: float
    throughput: dict[str, float | None]
    phases: dict[str, float]
    worker_samples: list[int]
    worker_seconds: list[float]
    warnings: list[str]


def summarise(workers: Sequence[WorkerSeries], *, synchronous: bool) -> Summary:
    """Figures over the steps that all workers finished, warm-up left out."""
    steps = min(len(w["end"]) for w in workers)
    durations = [(w["end"] - w["begin"])[:steps] for w in workers]
    skip = warmup_steps(np.mean(durations, axis=0))
    timed = slice(skip, steps)
    seconds = [float(d[timed].sum()) for d in durations]
    samples = [int(w["samples"][timed].sum()) for w in workers]
    return Summary(
        warmup_steps=skip,
        steps_timed=steps - skip,
        samples_timed=sum(samples),
        seconds_timed=max(seconds),
        throughput=(rate := _throughput(workers, durations, timed)),
        phases=_phases(workers, timed, synchronous=synchronous),
        worker_samples=samples,
        worker_seconds=seconds,
        warnings=_warnings(workers, timed, rate["value"], seconds),
    )


def _throughput(workers: Sequence[WorkerSeries], durations: list[Series], timed: slice) -> dict[str, float | None]:
    """The median over windows of the sum of all workers' rates; every worker reports, none stands for others."""
    rates = [
        sum(w["units"][timed][part].sum() / d[timed][part].sum() for w, d in zip(workers, durations, strict=True))
        for part in windows(len(durations[0][timed]))
    ]
    value, low, high = median_interval(np.array(rates))
    return {"value": value, "low": low, "high": high}


def _phases(workers: Sequence[WorkerSeries], timed: slice, *, synchronous: bool) -> dict[str, float]:
    """Mean seconds per step. wait_r = A − A_r, where A is the last arrival of all workers; exchange is the rest."""
    phases = {name: float(np.mean([w[name][timed].mean() for w in workers])) for name in _OWN_PHASES}
    blocked = np.array([w["exchange"][timed] for w in workers])
    wait = np.zeros_like(blocked)
    if synchronous:
        arrivals = np.array([w["arrival"][timed] for w in workers])
        wait = np.clip(arrivals.max(axis=0) - arrivals, 0, blocked)
    phases["wait"] = float(wait.mean())
    phases["exchange"] = float((blocked - wait).mean())
    return phases


def _warnings(workers: Sequence[WorkerSeries], timed: slice, median: float | None, seconds: list[float]) -> list[str]:
    mean = sum(w["units"][timed].sum() / s for w, s in zip(workers, seconds, strict=True))
    if median is not None and abs(mean / median - 1) > 0.02:
        return [
            f"The median rate of the windows and all units over all seconds differ by {abs(mean / median - 1):.0%}: "
            "the pace was uneven. Run longer, or on a quieter machine."
        ]
    return []


def mean_losses(workers: Sequence[WorkerSeries]) -> list[float | None]:
    """The loss of every step, weighted by samples over the workers; None where there was none."""
    steps = min(len(w["loss"]) for w in workers)
    losses: list[float | None] = []
    weights = np.array([w["samples"][:steps] for w in workers])
    values = np.nan_to_num(np.array([w["loss"][:steps] for w in workers]))
    for weight, value in zip(weights.T, values.T, strict=True):
        losses.append(float(weight @ value / weight.sum()) if weight.sum() else None)
    return losses


def per_worker(summary: Summary, reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row per worker: who it was and what it did in the timed steps."""
    rows = []
    for rank, report in enumerate(reports):
        rows.append(
            {
                "rank": rank,
                "node": 0,
                "device": report["device"],
                "cores": report["cores"],
                "samples": summary.worker_samples[rank],
                "seconds": summary.worker_seconds[rank],
                "utilisation_percent": report["utilisation_percent"],
                "peak_memory_bytes": report["peak_memory_bytes"],
            }
        )
    return rows

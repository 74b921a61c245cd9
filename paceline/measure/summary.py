"""From every worker's series to the figures of a record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.measure.stats import WINDOWS, Series, median_interval, warmup_steps, windows
from paceline.measure.wallclock import WorkerSeries, common_stretch

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
    """Figures over the timed steps, warm-up left out.

    Workers that wait for one another are timed over the same steps, others over the same stretch of time.
    """
    steps = min(len(w["end"]) for w in workers)
    durations = [w["end"] - w["begin"] for w in workers]
    skip = warmup_steps(np.mean([d[:steps] for d in durations], axis=0))
    if synchronous:
        timed = [slice(skip, steps)] * len(workers)
        seconds = [float(d[skip:steps].sum()) for d in durations]
        rates = _rates_by_step(workers, durations, timed[0])
    else:
        stretch = common_stretch(workers, skip)
        timed = [stretch.steps(w) for w in workers]
        seconds = [stretch.seconds] * len(workers)
        rates = stretch.rates(workers, min(WINDOWS, *(part.stop - part.start for part in timed)))
    value, low, high = median_interval(rates)
    samples = [int(w["samples"][part].sum()) for w, part in zip(workers, timed, strict=True)]
    units = [float(w["units"][part].sum()) for w, part in zip(workers, timed, strict=True)]
    return Summary(
        warmup_steps=skip,
        steps_timed=min(part.stop - part.start for part in timed),
        samples_timed=sum(samples),
        seconds_timed=max(seconds),
        throughput={"value": value, "low": low, "high": high},
        phases=_phases(workers, timed, synchronous=synchronous),
        worker_samples=samples,
        worker_seconds=seconds,
        warnings=_warnings(value, sum(u / s for u, s in zip(units, seconds, strict=True))),
    )


def _rates_by_step(workers: Sequence[WorkerSeries], durations: list[Series], timed: slice) -> Series:
    """In windows of steps, the sum of all workers' rates; every worker reports, none stands for others."""
    return np.array(
        [
            sum(w["units"][timed][part].sum() / d[timed][part].sum() for w, d in zip(workers, durations, strict=True))
            for part in windows(timed.stop - timed.start)
        ]
    )


def _phases(workers: Sequence[WorkerSeries], timed: list[slice], *, synchronous: bool) -> dict[str, float]:
    """Mean seconds per step. wait_r = A − A_r, where A is the last arrival of all workers; exchange is the rest."""
    parts = list(zip(workers, timed, strict=True))
    phases = {name: float(np.mean([w[name][part].mean() for w, part in parts])) for name in _OWN_PHASES}
    blocked = float(np.mean([w["exchange"][part].mean() for w, part in parts]))
    wait = 0.0
    if synchronous:
        arrivals = np.array([w["arrival"][part] for w, part in parts])
        exchanges = np.array([w["exchange"][part] for w, part in parts])
        wait = float(np.clip(arrivals.max(axis=0) - arrivals, 0, exchanges).mean())
    return {**phases, "wait": wait, "exchange": blocked - wait}


def _warnings(median: float, mean: float) -> list[str]:
    if abs(mean / median - 1) <= 0.02:
        return []
    return [
        f"The median rate of the windows and all units over all seconds differ by {abs(mean / median - 1):.0%}: "
        "the pace was uneven. Run longer, or on a quieter machine."
    ]


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

"""From every worker's series to the figures of a record."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.measure.phases import mean_phases
from paceline.measure.stats import WINDOWS, Series, median_interval, warmup_steps, windows
from paceline.measure.wallclock import WorkerSeries, common_stretch


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
        phases=mean_phases(workers, timed, synchronous=synchronous),
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

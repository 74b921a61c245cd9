"""Compute the figures of a record from every worker's series."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.measure.series import Series, WorkerSeries
from paceline.measure.stats import WINDOWS, Figure, median_interval, warmup_steps, window_rates
from paceline.measure.steadiness import fixed_timing_warning, unsteady
from paceline.measure.wallclock import common_stretch
from paceline.record_parts import StepPercentiles


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The timed steps and their throughput."""

    warmup_steps: int
    timed: list[slice]
    """The timed steps of every worker."""

    steps_timed: int
    samples_timed: int
    seconds_timed: float
    units_timed: int
    throughput: Figure
    worker_samples: list[int]
    worker_seconds: list[float]
    percentiles: StepPercentiles
    warnings: list[str]


def summarise(workers: Sequence[WorkerSeries], *, synchronous: bool, fixed_warmup: int | None = None) -> Summary:
    """Compute figures over the timed steps, without warm-up.

    The warm-up is detected in the data, and the rate is the median of window rates. Workers that wait for one another
    are timed over the same steps, others over the same stretch of time. With `fixed_warmup`, as in older benchmarks,
    all steps after it are one window, in which every worker's units are divided by its own seconds.
    """
    if fixed_warmup is not None:
        return _fixed(workers, fixed_warmup)
    steps = min(len(w.end) for w in workers)
    durations = [w.end - w.begin for w in workers]
    pace = np.mean([d[:steps] for d in durations], axis=0)
    skip = warmup_steps(pace)
    if synchronous:
        timed = [slice(skip, steps)] * len(workers)
        seconds = [float(d[skip:steps].sum()) for d in durations]
        rates = _rates_by_step(workers, durations, timed[0])
    else:
        stretch = common_stretch(workers, skip)
        timed = [stretch.steps(w) for w in workers]
        seconds = [stretch.seconds] * len(workers)
        rates = stretch.rates(workers, min(WINDOWS, *(part.stop - part.start for part in timed)))
    throughput = median_interval(rates)
    mean = sum(float(w.units[part].sum()) / s for w, part, s in zip(workers, timed, seconds, strict=True))
    warnings = unsteady(throughput, rates, mean=mean, step_seconds=pace, warmup=skip)
    return _summary(workers, timed, seconds, throughput, warnings)


def _fixed(workers: Sequence[WorkerSeries], warmup: int) -> Summary:
    """One window of all steps after `warmup`; a run that stopped earlier is timed over its last step."""
    timed = [slice(min(warmup, len(w.end) - 1), len(w.end)) for w in workers]
    seconds = [float((w.end - w.begin)[part].sum()) for w, part in zip(workers, timed, strict=True)]
    rate = sum(float(w.units[part].sum()) / s for w, part, s in zip(workers, timed, seconds, strict=True))
    warning = fixed_timing_warning(warmup=timed[0].start, steps=timed[0].stop - timed[0].start)
    return _summary(workers, timed, seconds, Figure(rate, fixed=True), [warning])


def _summary(
    workers: Sequence[WorkerSeries],
    timed: list[slice],
    seconds: list[float],
    throughput: Figure,
    warnings: list[str],
) -> Summary:
    samples = [int(w.samples[part].sum()) for w, part in zip(workers, timed, strict=True)]
    return Summary(
        warmup_steps=min(part.start for part in timed),
        timed=timed,
        steps_timed=min(part.stop - part.start for part in timed),
        samples_timed=sum(samples),
        seconds_timed=max(seconds),
        units_timed=sum(int(w.units[part].sum()) for w, part in zip(workers, timed, strict=True)),
        throughput=throughput,
        worker_samples=samples,
        worker_seconds=seconds,
        percentiles=_percentiles(workers, timed),
        warnings=warnings,
    )


def _percentiles(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> StepPercentiles:
    steps = np.concatenate([(w.end - w.begin)[part] for w, part in zip(workers, timed, strict=True)])
    p50, p90, p99 = (float(seconds) for seconds in np.percentile(steps, (50, 90, 99)))
    return StepPercentiles(p50=p50, p90=p90, p99=p99)


def _rates_by_step(workers: Sequence[WorkerSeries], durations: Sequence[Series], timed: slice) -> Series:
    """The sum of all workers' rates in windows of steps; every worker is measured."""
    rates = [window_rates(w.units[timed], d[timed]) for w, d in zip(workers, durations, strict=True)]
    return np.asarray(np.sum(rates, axis=0))


def mean_losses(workers: Sequence[WorkerSeries]) -> list[float | None]:
    """The loss of every step, averaged over the workers weighted by samples; None where no worker has one."""
    steps = min(len(w.loss) for w in workers)
    losses: list[float | None] = []
    values = np.array([w.loss[:steps] for w in workers])
    weights = np.where(np.isnan(values), 0, np.array([w.samples[:steps] for w in workers]))
    values = np.nan_to_num(values)
    for weight, value in zip(weights.T, values.T, strict=True):
        losses.append(float(weight @ value / weight.sum()) if weight.sum() else None)
    return losses

"""Questions about a curve: time to a loss, cost per sample, and the odds of an efficiency."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from paceline.errors import DataError
from paceline.measure.extremes import Z80, Z95
from paceline.measure.stats import Figure
from paceline.numbers import count
from paceline.project.curve import Projected
from paceline.project.laws.base import Array
from paceline.record import Record
from paceline.traffic.catalogue import exchanges

_NOISE = 0.05
"""The assumed relative scatter of runs around the law, for too few runs to estimate it."""

_WIDE = 3.0
_LEAST_SPREAD = 1e-6
_DRAWS = 2048
_SEED = 20211
_HOUR_SECONDS = 3600
REACH = 64
"""The largest multiple of the runs' largest global batch that may be requested."""

_DISTANCE_ERROR = 0.05
"""Relative error of the samples that each doubling beyond the runs' batches adds."""


@dataclass(frozen=True, eq=False)
class SamplesToTarget:
    """Samples until the target as S₀·(1 + B / B_crit) of the global batch B: draws of both parameters."""

    first_samples: Array
    """S₀: the samples that a very small batch would need."""

    critical_batch: Array
    smallest_batch: float
    largest_batch: float
    """The smallest and the largest global batch of the runs."""

    notes: tuple[str, ...] = ()

    def samples(self, global_batch: float) -> Array:
        """Samples until the target at a global batch, by draw."""
        return self.first_samples * (1 + global_batch / self.critical_batch)

    @property
    def critical(self) -> Figure:
        """The global batch that needs twice the samples of a very small one."""
        low, middle, high = np.quantile(self.critical_batch, (0.025, 0.5, 0.975))
        return Figure(float(middle), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Reached:
    """Runs that reached a target: the global batch of each, and the samples it needed."""

    batches: Array
    samples: Array
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimeToTarget:
    """Seconds until the target at one point, with their bands."""

    workers: int
    seconds: float
    low80: float
    high80: float
    low95: float
    high95: float


def read_runs(path: Path) -> Reached:
    """Read columns `global_batch` and `samples` of a CSV file, which has a line per run that reached the target."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(float(row["global_batch"]), float(row["samples"])) for row in csv.DictReader(file)]
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): give a CSV file.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: {error} is not valid: write columns global_batch,samples with numbers.") from error
    if any(not 0 < value < np.inf for row in rows for value in row):
        raise DataError(f"{path}: global_batch and samples must be above 0 in every row.")
    batches, samples = np.array(rows, float).reshape(-1, 2).T
    if len(np.unique(batches)) < 2:
        raise DataError(f"{path}: runs at one batch do not show its effect: give runs of at least two batches.")
    return Reached(batches, samples)


def reached(records: Sequence[Record], loss: float) -> Reached:
    """When runs reached a loss: the validation loss if every run was validated twice, else the training loss.

    Runs whose replicas never synchronise train several models, so they are left out.
    """
    runs = [r for r in records if r.spec.workers == 1 or exchanges(r.spec.strategy)]
    validated = all(len(r.learning.validation) > 1 for r in runs)
    needed = [_samples_until(r, loss, validated=validated) for r in runs]
    came_down = [(r.learning.global_batch, n) for r, n in zip(runs, needed, strict=True) if n is not None]
    kind = "validation" if validated else "training"
    batches, samples = np.array(came_down, float).reshape(-1, 2).T
    if len(np.unique(batches)) < 2:
        there = ", ".join(f"{batch:g}" for batch in np.unique(batches)) or "none"
        tried = ", ".join(f"{batch}" for batch in sorted({r.learning.global_batch for r in runs}))
        raise DataError(
            f"--to-loss {loss:g}: of the global batches {tried}, runs of {there} reached this {kind} loss; two "
            "are needed to show the effect of the batch. Request a higher loss, or train longer at several batches."
        )
    return Reached(batches, samples, tuple(_about(kind, loss, len(runs) - len(came_down))))


def _about(kind: str, loss: float, missed: int) -> list[str]:
    notes = [f"The loss is {'the validation loss' if kind == 'validation' else 'the training loss, smoothed'}."]
    if missed:
        notes.append(f"{count(missed, 'run')} did not reach {loss:g}, or started below it: left out.")
    return notes


def _samples_until(record: Record, loss: float, *, validated: bool) -> float | None:
    """Samples processed when the loss first fell this low; None if it never did, or started there."""
    from scipy.optimize import isotonic_regression  # slow to import

    learning = record.learning
    if validated:
        checks = [(check.samples, check.loss) for check in learning.validation]
        samples, values = np.array(checks, float).T  # None becomes NaN, which reaches no target
    else:
        steps = [(step, value) for step, value in enumerate(learning.loss, start=1) if value is not None]
        if not steps:
            return None
        at, values = np.array(steps, float).T
        samples = at * learning.samples_seen / len(learning.loss)
        # The decreasing curve closest to the noisy loss (isotonic regression), which needs no smoothing window.
        values = isotonic_regression(values, increasing=False).x
    below = np.flatnonzero(values <= loss)
    if not len(below) or below[0] == 0:
        return None
    (before, after), (high, low) = (array[below[0] - 1 : below[0] + 1] for array in (samples, values))
    return float(before + (after - before) * (high - loss) / (high - low))


def fit_samples(runs: Reached) -> SamplesToTarget:
    """Fit the law to runs; the parameters' logarithms are normal around the best (Laplace)."""
    from scipy.optimize import least_squares  # slow to import

    batches, samples = runs.batches, runs.samples
    start = np.array([np.log(samples.min()), np.log(np.median(batches)) + 1])

    def misfit(parameters: Array) -> Array:
        law = parameters[0] + np.log1p(batches / np.exp(parameters[1]))
        return np.append((law - np.log(samples)) / _NOISE, (parameters[1] - start[1]) / _WIDE)

    best = least_squares(misfit, start)
    freedom = max(1, len(batches) - 2)
    strayed = max(1.0, float(np.sum(best.fun[:-1] ** 2)) / freedom)
    covariance = np.linalg.inv(best.jac.T @ best.jac) * strayed
    draws = np.random.default_rng(_SEED).multivariate_normal(best.x, covariance, _DRAWS)
    ends = float(batches.min()), float(batches.max())
    return SamplesToTarget(np.exp(draws[:, 0]), np.exp(draws[:, 1]), *ends, runs.notes)


def time_to_target(law: SamplesToTarget, point: Projected) -> TimeToTarget | None:
    """Samples ÷ samples per second, with the bands of both combined.

    None where the batch or the step time is unknown, or the batch is too far from those of the runs.
    """
    ends = (point.low80, point.high80, point.low95, point.high95)
    if point.point.batch is None or point.step_seconds is None or not point.throughput or None in ends:
        return None
    global_batch = point.point.batch * point.point.workers
    if global_batch > REACH * law.largest_batch:
        return None
    logs = np.log(law.samples(global_batch))
    middle = float(np.median(logs))
    seconds = float(np.exp(middle)) * point.step_seconds / global_batch
    away = np.abs(np.quantile(logs, (0.9, 0.1, 0.975, 0.025)) - middle)  # most samples at the lowest rate
    beyond = max(0.0, np.log2(global_batch / law.largest_batch), np.log2(law.smallest_batch / global_batch))
    strayed = _DISTANCE_ERROR * beyond * np.array([Z80, Z80, Z95, Z95])
    rates = np.log(np.array(ends, float) / point.throughput)
    slow80, fast80, slow95, fast95 = np.exp(np.sqrt(away**2 + strayed**2 + rates**2))
    return TimeToTarget(
        workers=point.point.workers,
        seconds=seconds,
        low80=float(seconds / fast80),
        high80=float(seconds * slow80),
        low95=float(seconds / fast95),
        high95=float(seconds * slow95),
    )


def cost_per_unit(point: Projected, price_per_worker_hour: float) -> float | None:
    """Cost of one sample, or of whatever unit throughput counts; None where throughput is unknown."""
    if not point.throughput:
        return None
    return point.point.workers * price_per_worker_hour / _HOUR_SECONDS / point.throughput


def odds_of(point: Projected, least: float) -> float | None:
    """The probability that throughput is at least this much; None where it is unknown.

    Logarithms are taken as normal on either side of the median, as wide as the 80 % band is there.
    """
    if not point.throughput or not point.low80 or not point.high80:
        return None
    away = math.log(point.throughput / least)
    side = math.log(point.throughput / point.low80) if away > 0 else math.log(point.high80 / point.throughput)
    return NormalDist().cdf(Z80 * away / max(side, _LEAST_SPREAD))


def odds_of_efficiency(points: Sequence[Projected], alone: Projected, efficiency: float) -> list[float | None]:
    """The odds at each point that a worker still has this share of the throughput of one worker alone."""
    if not alone.throughput:
        return [None] * len(points)
    least = efficiency * alone.throughput / alone.point.workers
    return [odds_of(point, least * point.point.workers) for point in points]

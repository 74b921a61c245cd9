"""Questions about a curve: time to a loss, cost of a sample, and how many workers are worth having."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline.errors import DataError
from paceline.project.curve import Curve, Projected
from paceline.project.laws import Array

_NOISE = 0.05
"""How far runs stray from the law, as a share, where too few of them show it."""

_WIDE = 3.0
_Z80 = 1.2816
_DRAWS = 512
_SEED = 20211
_HOUR_SECONDS = 3600


@dataclass(frozen=True, eq=False)
class SamplesToTarget:
    """Samples until the target as S₀·(1 + B / B_crit) of the global batch B: draws of both parameters."""

    first_samples: Array
    """S₀: what a very small batch would need."""

    critical_batch: Array

    def samples(self, global_batch: float) -> Array:
        """By draw."""
        return self.first_samples * (1 + global_batch / self.critical_batch)


@dataclass(frozen=True)
class TimeToTarget:
    """Seconds until the target at one point, with its 80 % band."""

    workers: int
    seconds: float
    low80: float
    high80: float


def read_runs(path: Path) -> tuple[Array, Array]:
    """Columns `global_batch` and `samples` of a CSV file, a line per run that reached the target."""
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
        raise DataError(f"{path}: runs of one batch say nothing about others: give runs of at least two batches.")
    return batches, samples


def fit_samples(batches: Array, samples: Array) -> SamplesToTarget:
    """Fit the law to runs; the parameters' logarithms are normal around the best (Laplace)."""
    from scipy.optimize import least_squares  # slow to import

    start = np.array([np.log(samples.min()), np.log(np.median(batches)) + 1])

    def misfit(parameters: Array) -> Array:
        law = parameters[0] + np.log1p(batches / np.exp(parameters[1]))
        return np.append((law - np.log(samples)) / _NOISE, (parameters[1] - start[1]) / _WIDE)

    found = least_squares(misfit, start)
    freedom = max(1, len(batches) - 2)
    strayed = max(1.0, float(np.sum(found.fun[:-1] ** 2)) / freedom)
    covariance = np.linalg.inv(found.jac.T @ found.jac) * strayed
    draws = np.random.default_rng(_SEED).multivariate_normal(found.x, covariance, _DRAWS)
    return SamplesToTarget(np.exp(draws[:, 0]), np.exp(draws[:, 1]))


def time_to_target(law: SamplesToTarget, point: Projected) -> TimeToTarget | None:
    """Samples ÷ throughput, both bands together; None where the batch or the speed is not known.

    Throughput must count samples.
    """
    if point.point.batch is None or not point.throughput or not point.low80 or not point.high80:
        return None
    logs = np.log(law.samples(point.point.batch * point.point.workers))
    middle = float(np.median(logs)) - np.log(point.throughput)
    low, high = np.quantile(logs, [0.1, 0.9]) - np.median(logs)
    faster, slower = np.log(point.high80 / point.throughput), np.log(point.throughput / point.low80)
    return TimeToTarget(
        workers=point.point.workers,
        seconds=float(np.exp(middle)),
        low80=float(np.exp(middle - np.hypot(low, faster))),
        high80=float(np.exp(middle + np.hypot(high, slower))),
    )


def cost_per_unit(point: Projected, price_per_worker_hour: float) -> float | None:
    """Of one sample (or whatever throughput counts); None where the speed is not known."""
    if not point.throughput:
        return None
    return point.point.workers * price_per_worker_hour / _HOUR_SECONDS / point.throughput


def workers_worth_having(curve: Curve, efficiency: float) -> int | None:
    """The most workers of the curve that still reach the efficiency, a share of its own smallest count's speed each."""
    rated = [point for point in curve.points if point.throughput]
    if not rated:
        return None
    first = min(rated, key=lambda point: point.point.workers)
    alone = (first.throughput or 0) / first.point.workers
    enough = [p.point.workers for p in rated if (p.throughput or 0) / p.point.workers >= efficiency * alone]
    return max(enough, default=None)

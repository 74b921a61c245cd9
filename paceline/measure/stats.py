"""Warm-up, windows and intervals of a series of step times."""

import itertools
import math

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

WINDOWS = 20


def warmup_steps(step_seconds: Series) -> int:
    """How many first steps to leave out: the cut that makes the mean of the rest most certain (MSER).

    For each cut d the squared standard error of the mean, var(x[d:]) / (n − d), is compared; the smallest wins.
    Cuts lie in the first half. The first step is never counted when there are others: it pays for lazy set-up.
    """
    n = len(step_seconds)
    if n < 3:
        return 0 if n < 2 else 1
    cuts = np.arange(1, max(2, n // 2 + 1))
    left = n - cuts
    centred = step_seconds - np.median(step_seconds)  # equal steps have no variance, not even by rounding
    # Sums over x[d:] for every d at once; a long run has millions of steps.
    mean, square = (np.cumsum(x[::-1])[::-1][cuts] / left for x in (centred, centred**2))
    return int(cuts[np.argmin((square - mean**2) / left)])


def windows(count: int) -> list[slice]:
    """Consecutive steps in at most twenty windows of equal length, as far as they go."""
    number = min(WINDOWS, count)
    edges = np.linspace(0, count, number + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def median_interval(values: Series, confidence: float = 0.95) -> tuple[float, float | None, float | None]:
    """The median and its interval by order statistics: no assumption on the distribution.

    P(X₍ₖ₎ < median < X₍ₙ₊₁₋ₖ₎) = 1 − 2·P(Binomial(n, ½) < k). Too few values for the confidence give no interval.
    """
    ordered = np.sort(values)
    n = len(ordered)
    tail, k = 0.0, 0
    while k < n // 2:
        tail += math.comb(n, k) / 2**n
        if 2 * tail > 1 - confidence:
            break
        k += 1
    median = float(np.median(ordered))
    if k == 0:
        return median, None, None
    return median, float(ordered[k - 1]), float(ordered[n - k])

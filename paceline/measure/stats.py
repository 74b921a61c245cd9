"""Warm-up, windows and intervals of a series of step times."""

import functools
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from paceline.measure.series import Series
from paceline.numbers import count

WINDOWS = 20
CONFIDENCE = 0.95
ENOUGH_STEPS = 60
"""Timed steps from which on simulated intervals hold what they promise."""

_BLOCKS = 100
_CLIP = 2.0
_CAUTION = 3
_LEAST_WINDOWS = 2.0


@dataclass(frozen=True)
class Figure:
    """A value with its 95 % interval, or without one where the data cannot support it.

    A figure without an interval, or whose interval spans more than 2x, is not known: `known` is False, and nothing is
    derived from it. Timing over a fixed number of steps has no interval by design; such figures count as known.
    """

    value: float
    low: float | None = None
    high: float | None = None
    host_limited: bool = False
    """Whether the host limited the figure because it did not keep up with the devices it emulated."""

    fixed: bool = False
    """Whether there is no interval by request, because a fixed number of steps was timed."""

    impossible: bool = False
    """Whether the value is more than the devices can deliver."""

    @property
    def spread(self) -> float | None:
        """Distance of the farther end of the interval, as a share of the value; None without an interval."""
        if self.low is None or self.high is None:
            return None
        return max(self.value - self.low, self.high - self.value) / self.value

    @property
    def vague(self) -> bool:
        """Whether the 95 % interval spans more than 2x: below half or above twice the value."""
        if self.low is None or self.high is None:
            return False
        return self.low < self.value / 2 or self.high > 2 * self.value

    @property
    def known(self) -> bool:
        """Whether the value can be relied on and divided: it has an interval that is not vague, or fixed timing."""
        return self.fixed if self.spread is None else not self.vague

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must know about the value wherever it is printed."""
        found = {
            "host-limited": self.host_limited,
            "no interval": self.spread is None,
            "above ideal": self.impossible,
        }
        return tuple(mark for mark, applies in found.items() if applies)

    def excludes(self, value: float) -> bool:
        """Whether the value lies outside the interval; False without an interval."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def divided_by(self, other: "Figure") -> "Figure | None":
        """The ratio to an independent figure; None where either is not known.

        The distances to the ends, as logarithms, add up by their squares.
        """
        if not (self.known and other.known):
            return None
        value = self.value / other.value
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return Figure(value, fixed=True)
        below = math.hypot(math.log(self.value / self.low), math.log(other.high / other.value))
        above = math.hypot(math.log(self.high / self.value), math.log(other.value / other.low))
        return Figure(value, value * math.exp(-below), value * math.exp(above))

    def scaled(self, factor: float) -> "Figure":
        """The same figure in another unit."""
        low, high = (None if end is None else end * factor for end in (self.low, self.high))
        return replace(self, value=self.value * factor, low=low, high=high)


def too_few(steps: int) -> str:
    """Why so few steps give no rate, and what to do."""
    return f"{count(steps, 'step')} timed; {ENOUGH_STEPS} needed. Run longer, or take turns (--repeats)."


def warmup_steps(step_seconds: Series) -> int:
    """How many first steps to leave out: the cut that minimises the standard error of the rest (MSER).

    For each cut d the squared standard error of the mean, var(x[d:]) / (n − d), is compared; the smallest wins. A long
    series is divided into about a hundred blocks: their means show the end of a slow ramp that single steps hide.
    Cuts lie in the first half. The first of several steps never counts, because it includes lazy set-up.
    """
    steps = len(step_seconds)
    if steps < 3:
        return 0 if steps < 2 else 1
    block = max(1, steps // _BLOCKS)
    n = steps // block
    centred = step_seconds - np.median(step_seconds)  # equal steps have no variance, not even by rounding
    means = centred[: n * block].reshape(n, block).mean(axis=1)
    cuts = np.arange(0 if block > 1 else 1, n // 2 + 1)
    left = n - cuts
    # Sums over x[d:] for every d at once; a long run has millions of steps.
    mean, square = (np.cumsum(x[::-1])[::-1][cuts] / left for x in (means, means**2))
    return max(1, block * int(cuts[np.argmin((square - mean**2) / left)]))


def windows(count: int) -> list[slice]:
    """Divide consecutive steps into at most twenty windows of nearly equal length."""
    number = min(WINDOWS, count)
    edges = np.linspace(0, count, number + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def window_rates(units: Series, seconds: Series) -> Series:
    """Units per second in each window of one worker's steps."""
    starts = [part.start for part in windows(len(units))]
    return np.asarray(np.add.reduceat(units, starts) / np.add.reduceat(seconds, starts))


def median_interval(rates: Series) -> Figure:
    """The median of window rates, with a 95 % interval that accounts for correlation of neighbouring windows.

    It estimates the median rate of windows of this length if the run never ended. Where noise is not skewed, that is
    the long-run rate, units ÷ seconds; rare slow steps that most windows do not contain lower only the latter.

    The median of independent windows lies between two order statistics with 95 %, whatever their distribution:
    P(X₍ₖ₎ < median < X₍ₙ₊₁₋ₖ₎) = 1 − 2·P(Binomial(n, ½) < k). Windows that depend on one another count as fewer,
    m = `independent_windows` of n, so both distances from the median are stretched, on the scale of logarithms, by
    √(n/m) for the larger error of the median, √((1 − 1/n) / (1 − 1/m)) for the spread that related windows hide,
    and t(m − 1) / t(n − 1) for the uncertainty of that spread.

    Fewer than six windows give no interval. A run that is not much longer than its correlation gets a wide interval
    rather than none: leaving those out would keep only the runs that look better than they are. Simulated over AR(1)
    noise with φ from 0 to 0.95, skewed or not, after a warm-up, from 60 steps on, the interval contains the true value
    in 91–98 % of runs (tests/measure/test_coverage.py).
    """
    ordered = np.sort(rates)
    n = len(ordered)
    k = _rank(n)
    median = float(np.median(ordered))
    if k == 0 or ordered[0] <= 0:
        return Figure(median)
    m = independent_windows(rates)
    hidden = (1 - 1 / n) / (1 - 1 / m)
    stretch = math.sqrt(n / m * hidden) * t_quantile(m - 1) / t_quantile(n - 1)
    low, high = (median * (float(end) / median) ** stretch for end in (ordered[k - 1], ordered[n - k]))
    return Figure(median, low, high)


def independent_windows(rates: Series) -> float:
    """The effective number of windows: n·(1 − φ)/(1 + φ), φ the correlation of neighbours; at least 2.

    In a short series φ is underestimated, by (1 + 3φ)/n on average, and more after the warm-up cut, which makes the
    rest look most even. Three times that is added, because too narrow intervals do more harm than wide ones.
    """
    n = len(rates)
    away = np.log(rates / np.median(rates))
    typical = float(np.median(np.abs(away)))
    if typical > 0:  # one slow step in a window says nothing about neighbouring windows
        away = np.clip(away, -_CLIP * typical, _CLIP * typical)
    away = away - away.mean()
    power = float(away @ away)
    seen = float(away[1:] @ away[:-1]) / power if power > 0 else 0.0
    correlation = min(max(seen + _CAUTION * (1 + 3 * seen) / n, 0.0), 1.0)
    return max(n * (1 - correlation) / (1 + correlation), _LEAST_WINDOWS)


def t_quantile(freedom: float, comparisons: float = 1) -> float:
    """The number of standard errors to either side that contain 95 % of Student's t, for any degrees of freedom.

    With several comparisons each one gets its share of the 5 % (Bonferroni), so that all of them hold with 95 %.
    With t = √ν·tan θ the density becomes proportional to cos(θ)^(ν − 1) on 0 ≤ θ < π/2.
    """
    return _t_quantile(round(freedom, 2), 1 - (1 - CONFIDENCE) / comparisons)


@functools.lru_cache(maxsize=4096)
def _t_quantile(freedom: float, confidence: float) -> float:
    angles = np.linspace(0, math.pi / 2, 4001)
    density = np.cos(angles) ** (freedom - 1)
    held = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(freedom) * math.tan(float(np.interp(confidence, held / held[-1], angles)))


@functools.cache
def _rank(n: int) -> int:
    """The largest k for which X₍ₖ₎ and X₍ₙ₊₁₋ₖ₎ of n values enclose their median with 95 %; 0 if there is none."""
    tail, k = 0.0, 0
    while k < n // 2:
        tail += math.comb(n, k) / 2**n
        if 2 * tail > 1 - CONFIDENCE:
            break
        k += 1
    return k

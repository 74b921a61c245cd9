"""Warn where a run's pace was too unsteady to trust its figures, and say what to do."""

import math

import numpy as np

from paceline.measure.series import Series
from paceline.measure.stats import Figure, independent_windows, too_few, windows

_WIDE = 0.10
_DRIFT = 0.03
_LEVELS_APART = 0.05
_LEVEL_SHARE = 0.2
_LEVELS_SEPARATE = 5.0
_MEAN_APART = 0.02
_SLOW_STEP = 2.0
_MOST_WARMUP = 0.45
_STOLEN_PERCENT = 3.0


def unsteady(throughput: Figure, rates: Series, *, mean: float, step_seconds: Series, warmup: int) -> list[str]:
    """Warnings about the timed windows, each with a remedy; none for a sound series.

    `mean` is all units over all seconds. `step_seconds` are all steps, of which the first `warmup` are not timed.
    Only the first cause is named: an interval that is wide because of a drift is reported as a drift.
    """
    steps = step_seconds[warmup:]
    if throughput.spread is None:
        warnings = [f"The rate is not known: {too_few(len(steps))}"]
    else:
        causes = (_long_warmup(step_seconds, warmup), _drift(rates), _two_levels(steps), _wide(throughput, rates))
        warnings = [cause for cause in causes if cause][:1]
    return [*warnings, *_uneven(throughput.value, mean, steps)]


def fixed_timing_warning(*, warmup: int, steps: int) -> str:
    """The warning that belongs to fixed timing, as older benchmarks use it."""
    return (
        f"Timed as older benchmarks do: {steps} steps after {warmup} as one window. This gives no interval and hides a "
        "longer warm-up or an uneven pace. Use --timing detected for a reliable figure."
    )


def stolen_cores(percent: float | None) -> list[str]:
    """A warning where other virtual machines used this machine's cores for this share of the time."""
    if percent is None or percent < _STOLEN_PERCENT:
        return []
    return [
        f"Other virtual machines on this host had {percent:.0f} % of the cores' time (steal): figures are too low. "
        "Run again when they are less busy, or on cores that are not shared."
    ]


def _long_warmup(step_seconds: Series, warmup: int) -> str | None:
    """A warning where the warm-up is close to half of the steps, which is the largest possible cut."""
    left_out, timed = step_seconds[:warmup], step_seconds[warmup:]
    if warmup < _MOST_WARMUP * len(step_seconds) or warmup < 6:
        return None
    change = float(np.median(left_out) / np.median(timed)) - 1
    noise = float(np.std(timed) / np.mean(timed)) * math.sqrt(1 / independent_windows(_paces(timed)))
    if abs(change) <= max(_DRIFT, 3 * noise):
        return None
    return (
        f"Warm-up took {warmup} of {len(step_seconds)} steps and may not have ended. Run at least {4 * warmup} steps."
    )


def _drift(rates: Series) -> str | None:
    """A warning where the rates of the first and the last third of the windows do not overlap at all."""
    third = len(rates) // 3
    first, last = rates[:third], rates[-third:]
    change = float(np.median(last) / np.median(first)) - 1
    apart = first.max() < last.min() or last.max() < first.min()
    if third < 5 or not apart or abs(change) <= _DRIFT:
        return None
    word = "faster" if change > 0 else "slower"
    return (
        f"The pace drifted: the last third of the run was {abs(change):.0%} {word} than the first. "
        "Run longer, until it settles, and stop other work on the machine."
    )


def _two_levels(steps: Series) -> str | None:
    """A warning where the windows' typical steps form two distant groups; single slow steps do not count.

    The distance is D = √2·|difference of means| / √(sum of variances), at the split where it is largest: about 2.7
    for normal and 3.5 for uniform values split in the middle.
    """
    paces = np.sort(_paces(steps))
    least = max(3, math.ceil(_LEVEL_SHARE * len(paces)))
    splits = [(paces[:i], paces[i:]) for i in range(least, len(paces) - least + 1)]
    if not splits:
        return None
    slow, fast = max(splits, key=lambda split: _separation(*split))
    apart = float(fast.mean() / slow.mean()) - 1
    if apart <= _LEVELS_APART or _separation(slow, fast) <= _LEVELS_SEPARATE:
        return None
    return (
        f"The pace had two levels, {apart:.0%} apart, with {len(slow)} of {len(paces)} windows at the slow one; the "
        "median describes only one of them. Look for other work on the machine, or a changing clock frequency."
    )


def _separation(slow: Series, fast: Series) -> float:
    spread = math.sqrt(float(slow.var() + fast.var()))
    return math.sqrt(2) * float(fast.mean() - slow.mean()) / spread if spread > 0 else math.inf


def _wide(throughput: Figure, rates: Series) -> str | None:
    if throughput.spread is None or throughput.spread <= _WIDE:
        return None
    alike = independent_windows(rates) < len(rates) / 2
    why = "the pace changes slowly" if alike else "the steps vary a lot"
    if throughput.vague:
        return (
            f"The rate is not known: its 95 % interval spans more than 2x, because {why}. "
            "Run longer, on a quieter machine."
        )
    times = min(100, math.ceil((throughput.spread / (_WIDE / 2)) ** 2))  # an interval narrows with the root of the time
    return (
        f"The interval is wide, up to {throughput.spread:.0%} from the value: {why}. Run about {times} times as long."
    )


def _uneven(median: float, mean: float, steps: Series) -> list[str]:
    """A warning where the mean rate differs from the median of windows, which describes the steady pace."""
    apart = mean / median - 1
    if abs(apart) <= _MEAN_APART:
        return []
    slow = steps > _SLOW_STEP * np.median(steps)
    excess = float((steps[slow] - np.median(steps)).sum() / steps.sum())
    rare = 0 < slow.mean() < _LEVEL_SHARE and excess > abs(apart) / 2
    why = f"{slow.mean():.1%} of the steps were over twice as slow as usual" if rare else "the pace was uneven"
    side = "above" if apart > 0 else "below"
    return [
        f"The mean rate is {abs(apart):.0%} {side} the median of the windows: {why}. "
        "Run longer, or on a quieter machine."
    ]


def _paces(steps: Series) -> Series:
    """Median steps per second in each window."""
    return np.array([1 / np.median(steps[part]) for part in windows(len(steps))])

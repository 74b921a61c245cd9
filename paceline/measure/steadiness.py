"""Whether a run's pace was steady enough to be trusted, and in words what would make it so."""

import math

import numpy as np

from paceline.measure.series import Series
from paceline.measure.stats import Figure, independent_windows, windows

_WIDE = 0.10
_DRIFT = 0.03
_LEVELS_APART = 0.05
_LEVEL_SHARE = 0.2
_LEVELS_SEPARATE = 5.0
_MEAN_APART = 0.02
_SLOW_STEP = 2.0
_MOST_WARMUP = 0.45
_ENOUGH_STEPS = 100
_STOLEN_PERCENT = 3.0


def unsteady(throughput: Figure, rates: Series, *, mean: float, step_seconds: Series, warmup: int) -> list[str]:
    """What is wrong with the timed windows and what to do about it; nothing for a sound series.

    `mean` is all units over all seconds. `step_seconds` are all steps, of which the first `warmup` are not timed.
    A cause is named once: what is wide because it drifted is said to drift.
    """
    steps = step_seconds[warmup:]
    if throughput.spread is None:
        told = [f"There is no interval: too few steps ({len(steps)}) were timed. Run at least {_ENOUGH_STEPS} steps."]
    else:
        causes = (_long_warmup(step_seconds, warmup), _drift(rates), _two_levels(steps), _wide(throughput, rates))
        told = [cause for cause in causes if cause][:1]
    return [*told, *_uneven(throughput.value, mean, steps)]


def fixed_timing_warning(*, warmup: int, steps: int) -> str:
    """What the originals' way of timing leaves out."""
    return (
        f"Timed the originals' way: {steps} steps after {warmup} as one window. There is no interval, and a longer "
        "warm-up or an uneven pace would not show. Use --timing detected for a figure to rely on."
    )


def stolen_cores(percent: float | None) -> list[str]:
    """What is wrong where a virtual machine's cores were lent to others, for this share of the time."""
    if percent is None or percent < _STOLEN_PERCENT:
        return []
    return [
        f"Other machines on the same host had {percent:.0f} % of the cores' time (steal): figures are lower than this "
        "machine's own. Run again when they are quieter, or on cores that are not shared."
    ]


def _long_warmup(step_seconds: Series, warmup: int) -> str | None:
    """Half of the steps is the most that is ever left out, so near it the warm-up may not have been over."""
    left_out, timed = step_seconds[:warmup], step_seconds[warmup:]
    if warmup < _MOST_WARMUP * len(step_seconds) or warmup < 6:
        return None
    change = float(np.median(left_out) / np.median(timed)) - 1
    noise = float(np.std(timed) / np.mean(timed)) * math.sqrt(1 / independent_windows(_paces(timed)))
    if abs(change) <= max(_DRIFT, 3 * noise):
        return None
    return (
        f"Warm-up took {warmup} of {len(step_seconds)} steps and may not have been over. "
        f"Run at least {4 * warmup} steps."
    )


def _drift(rates: Series) -> str | None:
    """The first and the last third of the windows differ, and not one window of the one lies among the other's."""
    third = len(rates) // 3
    first, last = rates[:third], rates[-third:]
    change = float(np.median(last) / np.median(first)) - 1
    apart = first.max() < last.min() or last.max() < first.min()
    if third < 5 or not apart or abs(change) <= _DRIFT:
        return None
    word = "faster" if change > 0 else "slower"
    return (
        f"The pace drifted: the last third of the run was {abs(change):.0%} {word} than the first. "
        "Run longer, until it settles, and keep other work off the machine."
    )


def _two_levels(steps: Series) -> str | None:
    """Windows' typical steps fall into two groups far apart; single slow steps do not make a level.

    Apart means D = √2·|difference of means| / √(sum of variances), at the split where it is largest: about 2.7 for
    normal and 3.5 for evenly spread values cut in the middle.
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
        f"The pace had two levels, {apart:.0%} apart, {len(slow)} of {len(paces)} windows at the slow one; the median "
        "stands for one of them. Look for other work on the machine, or a clock frequency that changes."
    )


def _separation(slow: Series, fast: Series) -> float:
    spread = math.sqrt(float(slow.var() + fast.var()))
    return math.sqrt(2) * float(fast.mean() - slow.mean()) / spread if spread > 0 else math.inf


def _wide(throughput: Figure, rates: Series) -> str | None:
    if throughput.spread is None or throughput.spread <= _WIDE:
        return None
    alike = independent_windows(rates) < len(rates) / 2
    why = "neighbouring steps are alike for long" if alike else "the steps vary much"
    times = min(100, math.ceil((throughput.spread / (_WIDE / 2)) ** 2))  # an interval narrows with the root of the time
    return (
        f"The interval is wide, up to {throughput.spread:.0%} from the value: {why}. Run about {times} times as long."
    )


def _uneven(median: float, mean: float, steps: Series) -> list[str]:
    """The median of windows stands for the steady pace; where much time is lost beside it, that must be said."""
    apart = mean / median - 1
    if abs(apart) <= _MEAN_APART:
        return []
    slow = steps > _SLOW_STEP * np.median(steps)
    excess = float((steps[slow] - np.median(steps)).sum() / steps.sum())
    rare = 0 < slow.mean() < _LEVEL_SHARE and excess > abs(apart) / 2
    why = f"{slow.mean():.1%} of the steps were over twice as slow as usual" if rare else "the pace was uneven"
    side = "above" if apart > 0 else "below"
    return [
        f"All units over all seconds give a rate {abs(apart):.0%} {side} the median of the windows: {why}. "
        "Run longer, or on a quieter machine."
    ]


def _paces(steps: Series) -> Series:
    """Typical steps per second in each window."""
    return np.array([1 / np.median(steps[part]) for part in windows(len(steps))])

"""Which of several settings differ: comparisons that hold together, and what this many turns cannot show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from paceline.measure.ratios import around, by_turn
from paceline.measure.scaling import ScalingRow, Setting, unlike
from paceline.measure.series import Series
from paceline.measure.stats import Figure, t_quantile
from paceline.spec import BASELINE_STRATEGY

_LEAST_TURNS = 2
"""One turn does not show what changes from run to run, and so no difference between settings."""

_MOST_TURNS = 400
_PAIR = 2
_NINE_OF_TEN = 1.2816
"""Standard errors below the mean that 90 % of normal values exceed."""


@dataclass(frozen=True)
class Difference:
    """Whether one setting is faster than another."""

    ratio: Figure | None
    """Rate of the first ÷ rate of the second, with an interval for all comparisons together; None where not known."""

    verdict: str

    @property
    def seen(self) -> bool:
        """Whether the interval excludes 1; among equal settings this happens in at most 5 % of studies."""
        return self.ratio is not None and self.ratio.excludes(1)


@dataclass(frozen=True, eq=False)
class TurnTable:
    """Log rates, a row per setting and a column per turn; NaN where a run is missing.

    The model is log rate = setting + turn + noise. The noise is estimated from all settings together, with
    (k − 1)(n − 1) degrees of freedom for k settings in n turns; a pair whose own turns vary more uses its own estimate.
    Each of the comparisons gets its share of the 5 % (Bonferroni). For two settings this is the paired t-test.
    """

    logs: Series
    comparisons: int
    """How many pairs are compared in the whole study."""

    @cached_property
    def turns(self) -> int:
        """Turns that all settings have."""
        return int((~np.isnan(self.logs).any(axis=0)).sum())

    @property
    def _freedom(self) -> int:
        return (len(self.logs) - 1) * (self.turns - 1)

    @cached_property
    def noise(self) -> float | None:
        """Standard deviation of a run's log rate within its turn; None with fewer than two turns."""
        if self.turns < _LEAST_TURNS:
            return None
        whole = self.logs[:, ~np.isnan(self.logs).any(axis=0)]
        left = whole - whole.mean(axis=1, keepdims=True) - whole.mean(axis=0) + whole.mean()
        return math.sqrt(float((left**2).sum()) / self._freedom)

    @property
    def smallest(self) -> float | None:
        """The smallest difference that these turns can show, as a share; None with fewer than two turns."""
        if self.noise is None:
            return None
        return smallest_difference(self.noise, settings=len(self.logs), turns=self.turns, pairs=self.comparisons)

    def ratio(self, first: int, second: int) -> Figure | None:
        """Rate of the first setting ÷ rate of the second; None where they share fewer than two turns."""
        logs = self.logs[first] - self.logs[second]
        logs = logs[~np.isnan(logs)]
        if len(logs) < _LEAST_TURNS:
            return None
        variance, freedom = float(logs.var(ddof=1)), len(logs) - 1
        if self.noise is not None:
            variance, freedom = max(variance, 2 * self.noise**2), self._freedom
        reach = t_quantile(freedom, self.comparisons) * math.sqrt(variance / len(logs))
        return around(float(logs.mean()), reach)


@dataclass(frozen=True, eq=False)
class Family:
    """Settings that are compared with one another, each measured in turns."""

    settings: tuple[Setting, ...]
    comparisons: int

    @cached_property
    def table(self) -> TurnTable:
        """The rates of all settings, turn by turn."""
        runs = [by_turn(setting) for setting in self.settings]
        turns = sorted({turn for own in runs for turn in own})
        rates = [[own[turn].throughput.value if turn in own else math.nan for turn in turns] for own in runs]
        return TurnTable(np.log(np.array(rates)), self.comparisons)

    def difference(self, first: Setting, second: Setting) -> Difference:
        """Whether `first` is faster or slower than `second`, with 95 % for all comparisons of the study together."""
        facts = tuple(unlike(first[0], second[0]))
        if facts:
            return Difference(None, f"not compared: {'; '.join(facts)}")
        at = [next(i for i, own in enumerate(self.settings) if own is setting) for setting in (first, second)]
        ratio = self.table.ratio(*at)
        if ratio is None:
            return Difference(None, "not known: a difference takes two turns or more")
        if not ratio.excludes(1) or ratio.low is None or ratio.high is None:
            return Difference(ratio, "not measurably different")
        word = "faster" if ratio.value > 1 else "slower"
        near, far = sorted((abs(ratio.low - 1), abs(ratio.high - 1)))
        return Difference(ratio, f"{abs(ratio.value - 1):.1%} {word} ({near:.1%} to {far:.1%})")


def families(rows: Sequence[ScalingRow]) -> list[Family]:
    """The settings of one study that are alternatives to one another; a setting without one is left out.

    Alternatives train the same model with as many workers, in the same slow motion. One worker alone is a baseline,
    and an alternative only where nothing else was measured.
    """
    candidates = [row for row in rows if not row.records[0].spec.is_alone] or rows
    groups: dict[tuple[object, ...], list[Setting]] = {}
    for row in candidates:
        groups.setdefault(_alternatives(row), []).append(row.records)
    several = [tuple(group) for group in groups.values() if len(group) > 1]
    comparisons = sum(math.comb(len(group), 2) for group in several)
    return [Family(group, comparisons) for group in several]


def _alternatives(row: ScalingRow) -> tuple[object, ...]:
    spec = row.records[0].spec
    separate = spec.strategy == BASELINE_STRATEGY
    return spec.workload, spec.workers, separate, spec.slow_motion


def smallest_difference(noise: float, *, settings: int, turns: int, pairs: int | None = None) -> float:
    """The smallest difference, as a share, that so many turns can show among all `pairs` of settings."""
    comparisons = math.comb(settings, 2) if pairs is None else pairs
    return math.expm1(t_quantile((settings - 1) * (turns - 1), comparisons) * noise * math.sqrt(2 / turns))


def turns_needed(noise: float, difference: float, *, settings: int = 2) -> int | None:
    """How many turns find a difference in nine of ten studies; None where it takes more than 400."""
    for turns in range(_LEAST_TURNS, _MOST_TURNS + 1):
        if _standard_errors(settings, turns) * noise * math.sqrt(2 / turns) <= math.log1p(difference):
            return turns
    return None


def _standard_errors(settings: int, turns: int) -> float:
    """How many standard errors a difference must be to be found in nine of ten studies.

    It is found where it exceeds t·s standard errors, and varies by one around its true value. The estimate s varies,
    too, by 1/√(2ν); the larger of the pair's own estimate and that of all settings is 1 + 0.4·√(2/(n − 1)) in square.
    """
    freedom = (settings - 1) * (turns - 1)
    t = t_quantile(freedom, math.comb(settings, 2))
    larger = math.sqrt(1 + 0.4 * math.sqrt(2 / (turns - 1))) if settings > _PAIR else 1.0
    return t * larger + _NINE_OF_TEN * math.sqrt(1 + t**2 / (2 * freedom))

"""Causes ranked by the time they take, and what they mean: a verdict in one sentence, and the next thing to try."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from paceline.breakdown.arrivals import ENOUGH_STEPS
from paceline.breakdown.comparison import Comparison, comparisons
from paceline.breakdown.gap import LABELS, Gap
from paceline.breakdown.setting import MeasuredSetting
from paceline.explain import computing, exchanging, feeding, updating, waiting
from paceline.explain.cause import Cause
from paceline.measure.runs import StoredRuns, of_one_machine
from paceline.measure.stats import Figure
from paceline.numbers import count, ms, percent
from paceline.record import SIDECAR_NAME

FINDERS: tuple[Callable[[Comparison], Iterator[Cause]], ...] = (
    feeding.slow_input,
    computing.slower_compute,
    exchanging.exposed_exchange,
    waiting.slow_worker,
    waiting.spread,
    waiting.held_back,
    waiting.uneven_pace,
    updating.heavy_update,
    updating.serving_devices,
    updating.between_phases,
)
"""A new cause is a function in this list."""

_STANDS_OUT = 0.1
"""Of a step: a cause that takes less is no verdict."""

_UNEVEN = 0.02
"""Efficiencies by mean steps and by median rates that lie farther apart are both told."""

_WORTH_REPEATING = 0.05
"""Of a step: a gap as large as this that is lost in noise is worth more runs."""


@dataclass(frozen=True)
class Explanation:
    """One setting, explained."""

    case: Comparison
    causes: tuple[Cause, ...]
    """Those that take most time first."""

    notes: tuple[str, ...]

    @property
    def efficiency(self) -> Figure | None:
        """Of the rates, with its interval; None without a baseline."""
        return self.case.efficiency

    @property
    def gap(self) -> Gap | None:
        """The distance to ideal, where there is one that is more than noise."""
        return self.case.clear_gap

    @property
    def leading(self) -> Cause | None:
        """The cause that takes most time, if it stands out: in a step, or in a gap, which is divided however small."""
        if not self.causes or self.without_gap:
            return None
        least = 0.0 if self.gap else _STANDS_OUT * self.case.setting.step_seconds
        return self.causes[0] if self.causes[0].seconds >= least else None

    @property
    def without_gap(self) -> bool:
        """Whether there is a baseline, and no distance to ideal that is more than noise: then there is no cause."""
        return self.case.gap is not None and self.gap is None

    @property
    def further(self) -> tuple[Cause, ...]:
        """The causes that the verdict does not tell."""
        return () if self.without_gap else self.causes[1:]

    @cached_property
    def verdict(self) -> str:
        """One sentence."""
        step, leading = self.case.setting.step_seconds, self.leading
        if self.without_gap and self.case.gap is not None:
            return _no_gap(self.case.gap, self.efficiency)
        if self.gap is not None:
            distance = f"At {_efficiency(self.gap, self.efficiency)} of ideal a step is {ms(self.gap.seconds)} too long"
            if leading is None:
                return f"{distance}; no single cause takes a hundredth of a step."
            return f"{distance}; {leading.headline[0].lower()}{leading.headline[1:]}: {leading.sentence}."
        if leading is not None:
            return f"{leading.headline}: {leading.sentence} ({percent(leading.seconds / step)} of a step)."
        computing_share = (self.case.setting.phases.forward + self.case.setting.phases.backward) / step
        rest = f"the largest of the rest: {self.causes[0].sentence}" if self.causes else "nothing else takes much"
        return f"Compute-bound: forward and backward are {percent(computing_share)} of a step; {rest}."

    @property
    def evidence(self) -> tuple[str, ...]:
        """What the verdict stands on."""
        return self.leading.evidence if self.leading else ()

    @property
    def remedy(self) -> str:
        """The next thing to try."""
        if self.leading is not None:
            return self.leading.remedy
        if self.without_gap and self.case.gap is not None and _hidden_by_noise(self.case.gap):
            return "More turns and longer runs, on a quiet machine: `paceline study … --repeats 5`."
        if self.case.setting.emulated:
            return "More workers, or another device."
        return "More workers; or less to compute: `--precision bf16` where the device is fast at it."


@dataclass(frozen=True)
class Account:
    """Everything that was asked about."""

    explanations: tuple[Explanation, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> Explanation:
        """The setting farthest from its ideal; without any gap, the first."""
        return max(self.explanations, key=lambda e: e.gap.seconds / e.gap.step_seconds if e.gap else 0.0)

    @property
    def verdict(self) -> str:
        """One sentence for all settings together."""
        if len(self.explanations) == 1:
            return self.explanations[0].verdict
        gaps = [e.gap for e in self.explanations if e.gap]
        compared = sum(e.case.gap is not None for e in self.explanations)
        if not compared:
            return "There is no baseline to compare these settings with; each is explained by itself."
        if not gaps:
            if any(e.case.gap and _hidden_by_noise(e.case.gap) for e in self.explanations):
                return "The runs vary too much to tell a gap from noise; nothing is divided."
            return f"No setting of {compared} is farther from ideal than noise."
        largest = Counter(max(gap.components, key=lambda name: gap.components[name]) for gap in gaps)
        name, times = largest.most_common(1)[0]
        worst = self.worst
        assert worst.gap is not None
        return (
            f"The largest part of the gap to ideal is {LABELS[name]} in {times} of {count(len(gaps), 'setting')}; "
            f"farthest from ideal is {worst.case.setting.label} at {_efficiency(worst.gap, worst.efficiency)}."
        )


def account(found: StoredRuns, *, anyway: bool = False) -> Account:
    """Explain every setting among the runs, against its one-worker baseline where there is one."""
    runs, notes = of_one_machine(found.runs, anyway=anyway)
    explained = map(explain, comparisons(runs, scaling=found.scaling))
    explanations = tuple(sorted(explained, key=lambda e: e.case.baseline is not None))
    if len(explanations) > 1 and not any(e.case.gap for e in explanations):
        notes = (*notes, _no_baseline(explanations[0].case.setting))
    return Account(explanations, (*found.notes, *notes))


def explain(case: Comparison) -> Explanation:
    """Explain one setting: every finder says which causes it sees."""
    causes = sorted((cause for find in FINDERS for cause in find(case)), key=lambda cause: -cause.seconds)
    notes = (*_notes(case.setting), *_two_efficiencies(case.gap, case.efficiency), *case.scaling.notes)
    return Explanation(case, tuple(causes), notes)


def _two_efficiencies(gap: Gap | None, efficiency: Figure | None) -> Iterator[str]:
    """Rates are medians of windows, a step's phases are means: with an even pace they agree."""
    if gap is None or efficiency is None or abs(gap.efficiency - efficiency.value) <= _UNEVEN:
        return
    yield (
        f"By mean steps, which the gap divides, the efficiency is {percent(gap.efficiency)}; by median rates it is "
        f"{percent(efficiency.value)}: the pace was uneven."
    )


def _notes(setting: MeasuredSetting) -> Iterator[str]:
    for run in setting.runs:
        for failure in run.record.failures:
            yield f"{run.folder}: {failure}"
        if run.series is None:
            yield (
                f"{run.folder} has no readable {SIDECAR_NAME}: explained from the record alone. How arrivals vary, and "
                "what each bucket's exchange took, is not known."
            )
    if setting.steps_timed < ENOUGH_STEPS:
        yield (
            f"Only {count(setting.steps_timed, 'step')} timed: what differs from step to step is not told from what is "
            f"always so. Train for {ENOUGH_STEPS} steps or more after warm-up."
        )


def _no_baseline(setting: MeasuredSetting) -> str:
    spec = setting.spec
    return (
        "There is no one-worker baseline among these, so the gap to ideal is not divided. Measure it: "
        f"paceline train {spec.workload} --strategy independent --feed {spec.feed} --batch {spec.batch} …"
    )


def _hidden_by_noise(gap: Gap) -> bool:
    """Whether a gap may well be there."""
    return gap.seconds > _WORTH_REPEATING * gap.step_seconds


def _no_gap(gap: Gap, efficiency: Figure | None) -> str:
    told = _efficiency(gap, efficiency)
    if _hidden_by_noise(gap):
        return f"At {told} of ideal the runs vary too much to tell a gap from noise, so nothing is divided."
    return f"At {told} of ideal there is no gap beyond noise, so nothing is divided."


def _efficiency(gap: Gap, efficiency: Figure | None) -> str:
    if efficiency is None:
        return percent(gap.efficiency)
    if efficiency.low is None or efficiency.high is None:
        return percent(efficiency.value)
    if efficiency.vague:
        return f"{percent(efficiency.value)} (uncertain)"
    return f"{percent(efficiency.value)} ({efficiency.low * 100:.0f}–{efficiency.high * 100:.0f} %)"

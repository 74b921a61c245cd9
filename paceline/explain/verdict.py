"""Rank causes by the time they take; give a verdict in one sentence and the next thing to try."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from paceline.breakdown.comparison import Comparison, comparisons
from paceline.breakdown.gap import LABELS, Gap
from paceline.breakdown.setting import MeasuredSetting
from paceline.breakdown.steps import ENOUGH_STEPS
from paceline.errors import in_one_line
from paceline.explain import computing, exchanging, feeding, linking, recurring, updating, waiting
from paceline.explain.cause import Cause
from paceline.measure.runs import StoredRuns, of_one_machine
from paceline.measure.stats import Figure
from paceline.numbers import count, ms, percent
from paceline.record import FILE_NAME, SIDECAR_NAME

FINDERS: tuple[Callable[[Comparison], Iterator[Cause]], ...] = (
    feeding.slow_input,
    computing.slower_compute,
    exchanging.exposed_exchange,
    linking.slow_links,
    waiting.straggler,
    waiting.spread,
    waiting.agreement,
    recurring.comes_and_goes,
    waiting.staleness_bound,
    waiting.uneven_pace,
    updating.heavy_update,
    updating.serving_devices,
    updating.between_phases,
)
"""Functions that yield causes; a new cause is a function in this list."""

_STANDS_OUT = 0.1
"""Share of a step; a cause that takes less does not become the verdict."""

_UNEVEN = 0.02
"""Where efficiencies by mean steps and by median rates differ by more than this, a note gives both."""

_WORTH_REPEATING = 0.05
"""Share of a step; a larger gap that noise hides is worth more runs."""


@dataclass(frozen=True)
class Explanation:
    """One setting with its causes and the verdict they lead to."""

    case: Comparison
    causes: tuple[Cause, ...]
    """Ordered by the time they take, longest first."""

    notes: tuple[str, ...]

    @property
    def efficiency(self) -> Figure | None:
        """By median rates, with its interval; None without a baseline, or where it is not known."""
        return self.case.efficiency

    @property
    def gap(self) -> Gap | None:
        """The gap to ideal; None without a baseline, where efficiency is not known or the gap is within noise."""
        return self.case.clear_gap

    @property
    def leading(self) -> Cause | None:
        """The cause that takes most time, if it stands out in the step; in a clear gap, always the largest cause."""
        if not self.causes or self.without_gap:
            return None
        least = 0.0 if self.gap else _STANDS_OUT * self.case.setting.step_seconds
        return self.causes[0] if self.causes[0].seconds >= least else None

    @property
    def without_gap(self) -> bool:
        """Whether there is a baseline but no gap beyond noise; then there is no cause to name."""
        return self.case.gap is not None and self.gap is None

    @property
    def further(self) -> tuple[Cause, ...]:
        """The causes that the verdict does not name."""
        return () if self.without_gap else self.causes[1:]

    @cached_property
    def verdict(self) -> str:
        """The conclusion in one sentence."""
        step, leading = self.case.setting.step_seconds, self.leading
        if self.without_gap and self.case.gap is not None:
            return _no_gap(self.case)
        if self.gap is not None:
            efficiency = _efficiency(self.case)
            distance = f"Efficiency is {efficiency}: a step takes {ms(self.gap.seconds)} more than ideal"
            if leading is None:
                return f"{distance}; no single cause stands out."
            return f"{distance}. {leading.headline}: {leading.sentence}."
        if leading is not None:
            return f"{leading.headline}: {leading.sentence} ({percent(leading.seconds / step)} of a step)."
        computing_share = (self.case.setting.phases.forward + self.case.setting.phases.backward) / step
        rest = f"Next largest: {self.causes[0].sentence}." if self.causes else "No other part takes much time."
        return f"Compute-bound: forward and backward are {percent(computing_share)} of a step. {rest}"

    @property
    def evidence(self) -> tuple[str, ...]:
        """The measurements that support the verdict."""
        return self.leading.evidence if self.leading else ()

    @property
    def remedy(self) -> str:
        """The next thing to try."""
        if self.leading is not None:
            return self.leading.remedy
        if self.without_gap and _may_hide_gap(self.case):
            return "Repeat more often and run longer, on a quiet machine: `paceline study … --repeats 5`."
        if self.case.setting.emulated:
            return "Try more workers, or another device."
        return "Try more workers, or `--precision bf16` where the device is fast at it."


@dataclass(frozen=True)
class Account:
    """The explanations of all settings, and notes about all of them."""

    explanations: tuple[Explanation, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> Explanation:
        """The setting farthest from ideal; the first one where none has a gap."""
        return max(self.explanations, key=lambda e: e.gap.seconds / e.gap.step_seconds if e.gap else 0.0)

    @property
    def verdict(self) -> str:
        """One sentence for all settings together."""
        if len(self.explanations) == 1:
            return self.explanations[0].verdict
        gaps = [e.gap for e in self.explanations if e.gap]
        compared = sum(e.case.gap is not None for e in self.explanations)
        if not compared:
            return "These settings have no baseline to compare with; each is explained on its own."
        if not gaps:
            if any(_may_hide_gap(e.case) for e in self.explanations):
                return "No breakdown given: the runs vary too much to separate a gap from noise."
            return f"{count(compared, 'setting')} compared; none has a gap to ideal beyond noise."
        largest = Counter(max(gap.components, key=lambda name: gap.components[name]) for gap in gaps)
        name, times = largest.most_common(1)[0]
        worst = self.worst
        assert worst.gap is not None
        return (
            f"The largest part of the gap to ideal is {LABELS[name]} in {times} of {count(len(gaps), 'setting')}; "
            f"the farthest from ideal is {worst.case.setting.label} at {_efficiency(worst.case)}."
        )


def account(stored: StoredRuns, *, anyway: bool = False) -> Account:
    """Explain every setting among the runs, against its one-worker baseline where there is one."""
    runs, notes = of_one_machine(stored.runs, anyway=anyway)
    explained = map(explain, comparisons(runs, scaling=stored.scaling))
    explanations = tuple(sorted(explained, key=lambda e: e.case.baseline is not None))
    if len(explanations) > 1 and not any(e.case.gap for e in explanations):
        notes = (*notes, _no_baseline(explanations[0].case.setting))
    return Account(explanations, (*stored.notes, *notes))


def explain(case: Comparison) -> Explanation:
    """Explain one setting with the causes that all finders yield."""
    causes = sorted((cause for find in FINDERS for cause in find(case)), key=lambda cause: -cause.seconds)
    notes = (*_notes(case.setting), *_two_efficiencies(case.gap, case.efficiency), *case.scaling.notes)
    return Explanation(case, tuple(causes), notes)


def _two_efficiencies(gap: Gap | None, efficiency: Figure | None) -> Iterator[str]:
    """Note that two efficiencies differ; median rates and mean phases agree only at a steady pace."""
    if gap is None or efficiency is None or abs(gap.efficiency - efficiency.value) <= _UNEVEN:
        return
    yield (
        f"The efficiency is {percent(gap.efficiency)} by mean steps, which the breakdown uses, and "
        f"{percent(efficiency.value)} by median rates: the pace was uneven."
    )


def _notes(setting: MeasuredSetting) -> Iterator[str]:
    for run in setting.runs:
        for failure in run.record.failures:
            yield f"{run.folder}: {in_one_line(failure, run.folder / FILE_NAME)}"
        if run.series is None:
            yield (
                f"{run.folder} has no readable {SIDECAR_NAME}: this explanation uses the record alone. It does not "
                "show how arrivals vary or how long each bucket took."
            )
    if setting.steps_timed < ENOUGH_STEPS:
        yield (
            f"Only {count(setting.steps_timed, 'step')} timed: too few to separate noise from a straggler. "
            f"Train for {ENOUGH_STEPS} steps or more after warm-up."
        )


def _no_baseline(setting: MeasuredSetting) -> str:
    spec = setting.spec
    return (
        "No breakdown of the gap to ideal: these runs include no one-worker baseline. Measure one: "
        f"paceline train {spec.workload} --strategy independent --feed {spec.feed} --batch {spec.batch} …"
    )


def _may_hide_gap(case: Comparison) -> bool:
    """Whether noise may hide a gap that matters."""
    if case.gap is None:
        return False
    return case.efficiency is None or case.gap.seconds > _WORTH_REPEATING * case.gap.step_seconds


def _no_gap(case: Comparison) -> str:
    if case.efficiency is None:
        return f"Efficiency is not known: {case.scaling.not_known} No breakdown given."
    noise = "the runs vary too much to separate a gap from noise"
    why = noise if _may_hide_gap(case) else "the gap is within noise"
    return f"Efficiency is {_efficiency(case)}; no breakdown given: {why}."


def _efficiency(case: Comparison) -> str:
    value = case.efficiency
    assert value is not None, "asked only where it is known"
    remarks = list(value.marks)
    if value.low is not None and value.high is not None:
        remarks.insert(0, f"{value.low * 100:.0f}–{value.high * 100:.0f} %")
    return f"{percent(value.value)} ({', '.join(remarks)})"

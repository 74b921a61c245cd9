"""Causes that come and go: one worker late every k-th step or rarely, all workers pausing at once."""

from collections.abc import Iterator

from paceline.breakdown.comparison import Comparison
from paceline.breakdown.own_times import QUEUE
from paceline.breakdown.steps import Recurring
from paceline.explain.cause import Cause
from paceline.explain.delays import phase_remedy
from paceline.explain.feeding import better_feed
from paceline.explain.linking import link_cost
from paceline.numbers import count, ms

_PATTERN_STEPS = 3
"""Fewer long steps are no sign that there will be more."""


def comes_and_goes(case: Comparison) -> Iterator[Cause]:
    """Yield delays in some of the steps: who, how often, how long, and what they cost per step on average."""
    slow_link = link_cost(case)
    for one in case.steps.recurring:
        if slow_link is not None and one.phase == "exchange":
            continue  # it is the link's
        seconds = one.cost_seconds - (case.usual_pauses(one.phase) if one.rank is None else 0.0)
        if case.noticeable(seconds):
            yield _pause(case, one, seconds) if one.rank is None else _late_at_times(case, one, one.rank, seconds)


def _late_at_times(case: Comparison, one: Recurring, rank: int, seconds: float) -> Cause:
    worker = case.setting.workers[rank]
    where = "waiting for its core" if one.phase == QUEUE else f"in its {one.phase}"
    together = case.setting.traffic.synchronous
    late = f"is late {_how_often(one)}, by {ms(one.seconds)}"
    longer = f"takes {ms(one.seconds)} longer {_how_often(one)}"
    others = "what the others wait for it" if together else "its share of the mean step, as nobody waits for it"
    return Cause(
        name="intermittent straggler",
        headline="Intermittent straggler",
        seconds=seconds,
        rank=rank,
        sentence=f"{worker.name} {late if together else longer} {where}; that costs {ms(seconds)} per step on average",
        evidence=(f"The cost is {others}, over all {count(one.steps, 'step')}.", *_evidence(case, one)),
        remedy=_advice(case, one, rank),
    )


def _pause(case: Comparison, one: Recurring, seconds: float) -> Cause:
    alone = len(case.setting.workers) == 1
    who = "the worker pauses" if alone else "all workers pause at once"
    return Cause(
        name="pauses",
        headline="Pauses",
        seconds=seconds,
        sentence=f"{who} in {one.phase} {_how_often(one)}, for {ms(one.seconds)}; that costs {ms(seconds)} per step on "
        "average",
        evidence=tuple(_evidence(case, one)),
        remedy=_pause_advice(case, one),
    )


def _how_often(one: Recurring) -> str:
    if one.every is not None:
        return f"every {_ordinal(one.every)} step"
    if one.stretch is not None:
        return f"from step {one.stretch[0]} to step {one.stretch[1]}"
    return f"in {one.long_steps:,} of {count(one.steps, 'step')}"


def _evidence(case: Comparison, one: Recurring) -> Iterator[str]:
    listed = ", ".join(map(str, one.examples))
    more = ", …" if one.long_steps > len(one.examples) else ""
    yield f"Long steps: {listed}{more} ({count(one.long_steps, 'step')} of {one.steps:,})."
    if one.long_steps < _PATTERN_STEPS:
        yield "So few long steps do not show whether it happens again: train longer to know."
    if not all(QUEUE in own.parts for own in case.steps.own) and one.phase != "exchange":
        yield "Whether it waited for a core in these steps was not measured."


def _advice(case: Comparison, one: Recurring, rank: int) -> str:
    worker = case.setting.workers[rank]
    if one.phase == QUEUE:
        return f"Another process uses {worker.device} from time to time: stop it, or exclude its cores with `taskset`."
    return f"{_when(one)} {phase_remedy(case, worker, one.phase)}"


def _pause_advice(case: Comparison, one: Recurring) -> str:
    if one.phase == "input":
        return f"{_when(one)} {better_feed(case)}"
    if one.phase == "exchange":
        return (
            f"{_when(one)} Look at the network and at what else uses it: communication itself stalls for all workers."
        )
    what = "the optimizer does" if one.phase == "update" else f"{one.phase} does"
    return (
        f"{_when(one)} Look for what {what} then on every worker: writing a checkpoint or a log, garbage collection, "
        "a longer batch."
    )


def _when(one: Recurring) -> str:
    listed = ", ".join(map(str, one.examples))
    return f"Look at {'step' if len(one.examples) == 1 else 'steps'} {listed} in a trace (`--trace`)."


def _ordinal(number: int) -> str:
    """`2` → `"2nd"`, `11` → `"11th"`."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"

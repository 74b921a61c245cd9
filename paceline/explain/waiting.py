"""Causes of waiting: a straggler, workers whose steps vary, a staleness bound, agreeing when to stop."""

from collections.abc import Iterator

from paceline.breakdown.arrivals import agreement_seconds, spread_seconds, steady_wait, systematic_wait
from paceline.breakdown.comparison import Comparison
from paceline.breakdown.own_times import QUEUE
from paceline.breakdown.setting import FOREIGN_PERCENT
from paceline.explain.cause import Cause
from paceline.explain.delays import evidence_of, remedy_of, why
from paceline.explain.linking import link_cost
from paceline.measure.extremes import expected_maximum
from paceline.numbers import count, ms, percent


def straggler(case: Comparison) -> Iterator[Cause]:
    """Yield the worker that all others wait for, and what takes it longer than its peers."""
    if not case.slow:
        return
    late = case.slow[0]
    worker = case.setting.workers[late.rank]
    delay = why(case, worker, late)
    if delay.phase == "exchange" and link_cost(case) is not None:
        return  # it is the link that makes it late
    arrival = f"{ms(late.seconds)} after the others, late in {percent(late.share)} of the steps"
    also = ", ".join(case.setting.workers[other.rank].name for other in case.slow[1:])
    yield Cause(
        name="straggler",
        headline="Straggler",
        seconds=late.seconds,
        rank=late.rank,
        sentence=f"{worker.name} arrives {arrival}; {delay.words}",
        evidence=(
            f"The others wait {ms(case.phases.wait)} in a step, on average.",
            *evidence_of(case, worker, delay),
            *(
                f"The others' {name} takes {ms(-seconds)} longer than its: without its delay they would be the last."
                for name, seconds in late.longer.items()
                if name != QUEUE and case.noticeable(-seconds)
            ),
            *([f"Also late: {also}."] if also else []),
        ),
        remedy=remedy_of(case, worker, delay),
    )


def spread(case: Comparison) -> Iterator[Cause]:
    """Yield the waiting that no single worker causes: different workers are the slowest in different steps."""
    workers = len(case.setting.workers)
    if not case.setting.traffic.synchronous or workers < 2:
        return
    seconds = steady_wait(case.steps) - systematic_wait(case.slow, workers)
    if not case.noticeable(seconds):
        return
    deviation = spread_seconds(case.steps)
    late = case.slow and link_cost(case) is None
    named = late or any(one.rank is not None for one in case.steps.recurring)
    who = "beyond what the straggler explains" if named else "for it"
    evidence = []
    if deviation is not None:
        expected = deviation * expected_maximum(workers)
        evidence.append(
            f"A worker's arrival varies by ±{ms(deviation)}. The last of {workers} equal workers is then expected "
            f"{ms(expected)} after the mean; the measured mean wait is {ms(case.setting.phases.wait)}."
        )
    foreign = max(case.setting.foreign_percent.values(), default=0.0)
    if foreign >= FOREIGN_PERCENT:
        evidence.append(f"Other processes keep a device busy for up to {foreign:.0f} % of the time.")
    yield Cause(
        name="spread",
        headline="Uneven steps",
        seconds=seconds,
        sentence=f"a different worker is last in each step, and the others wait {ms(seconds)} {who}",
        evidence=tuple(evidence),
        remedy=(
            "Stop other processes on this machine and run again."
            if foreign >= FOREIGN_PERCENT
            else f"Make steps longer, which vary less in proportion: `--batch {2 * case.setting.batch}`."
        ),
    )


def agreement(case: Comparison) -> Iterator[Cause]:
    """Yield the waiting for the agreement when to stop that no straggler explains."""
    seconds = agreement_seconds(case.setting)
    if not case.noticeable(seconds):
        return
    yield Cause(
        name="agreement",
        headline="Waiting to agree",
        seconds=seconds,
        sentence=f"workers wait {ms(seconds)} per step for the agreement when to stop, which all must answer",
        evidence=("They agree about twice a second, however long a step is; it takes a message from every worker.",),
        remedy="Make messages between workers quicker, or steps shorter than half a second, so that fewer steps agree.",
    )


def staleness_bound(case: Comparison) -> Iterator[Cause]:
    """Yield the time that a staleness bound makes workers wait, and the worker they wait for."""
    traffic, seconds = case.setting.traffic, case.setting.phases.wait
    if traffic.bound is None or not case.noticeable(seconds):
        return
    slowest = min(case.setting.workers, key=lambda worker: worker.phases.wait)
    waits = (f"{worker.name} {ms(worker.phases.wait)}" for worker in case.setting.workers)
    yield Cause(
        name="staleness bound",
        headline="Staleness-bound",
        seconds=seconds,
        rank=slowest.rank,
        sentence=f"the bound of {count(traffic.bound, 'step')} makes workers wait {ms(seconds)} per step, mostly for "
        f"{slowest.name}, which itself waits least",
        evidence=(f"Waiting per step: {', '.join(waits)}.",),
        remedy=f"Try `--strategy ps:mode=stale,bound={2 * (traffic.bound or 1)}`, or `ps:mode=async`; watch the loss.",
    )


def uneven_pace(case: Comparison) -> Iterator[Cause]:
    """Yield a straggler among workers without a barrier: it delays nobody, but makes fewer steps itself."""
    if case.uneven is None:
        return
    worker, seconds, workers = case.setting.workers[case.uneven.rank], case.uneven.seconds, len(case.setting.workers)
    delay = why(case, worker, case.uneven)
    yield Cause(
        name="straggler",
        headline="Straggler",
        seconds=seconds / workers,
        rank=worker.rank,
        sentence=f"each step of {worker.name} takes {ms(seconds)} longer than the others'; {delay.words}",
        evidence=(
            f"Nobody waits for it, so the mean step is longer by {ms(seconds / workers)}.",
            *evidence_of(case, worker, delay),
        ),
        remedy=remedy_of(case, worker, delay),
    )

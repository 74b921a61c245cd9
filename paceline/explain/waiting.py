"""Causes of waiting: a straggler, workers whose steps vary, a staleness bound."""

from collections.abc import Iterator

from paceline.breakdown.arrivals import spread_seconds, systematic_wait
from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import FOREIGN_PERCENT, Worker, mean
from paceline.explain.cause import Cause
from paceline.explain.linking import link_cost
from paceline.measure.extremes import expected_maximum
from paceline.numbers import count, ms, percent
from paceline.record_parts import Phases

_SAME_CPU = 0.5
"""A straggler whose extra CPU time is less than this share of its delay is waiting, not computing."""


def straggler(case: Comparison) -> Iterator[Cause]:
    """Yield the worker that all others wait for, and the phase in which it is slower than its peers."""
    if not case.slow:
        return
    late = case.slow[0]
    worker = case.setting.workers[late.rank]
    phase, longer = _longest_excess(worker, case.phases)
    if phase == "exchange" and link_cost(case) is not None:
        return  # it is the link that makes it late
    arrival = f"{ms(late.seconds)} after the others, late in {percent(late.share)} of the steps"
    own = f"its {phase} takes {ms(longer)} longer than theirs" if phase else "none of its phases explains why"
    also = ", ".join(case.setting.workers[other.rank].name for other in case.slow[1:])
    yield Cause(
        name="straggler",
        headline="Straggler",
        seconds=late.seconds,
        rank=late.rank,
        sentence=f"{worker.name} arrives {arrival}; {own}",
        evidence=(
            f"The others wait {ms(case.phases.wait)} in every step.",
            *(_why(case, worker, late.seconds)),
            *([f"Also late: {also}."] if also else []),
        ),
        remedy=_remedy(case, worker, phase),
    )


def _longest_excess(worker: Worker, peers: Phases) -> tuple[str | None, float]:
    """The phase in which a worker exceeds its peers most, and by how much; waiting does not count."""
    excess = {name: seconds - peers.of(name) for name, seconds in worker.phases if name != "wait"}
    name = max(excess, key=lambda phase: excess[phase])
    return (name, excess[name]) if excess[name] > 0 else (None, 0.0)


def _why(case: Comparison, worker: Worker, late: float) -> Iterator[str]:
    peers_cpu = None if case.setting.emulated else mean(peer.cpu_seconds for peer in case.peers)
    if worker.cpu_seconds is not None and peers_cpu is not None:
        more = worker.cpu_seconds - peers_cpu
        meaning = "it waits or is blocked, it does not compute more" if more < _SAME_CPU * late else "it computes more"
        yield (f"It spends {ms(worker.cpu_seconds)} of CPU time per step, the others {ms(peers_cpu)}: {meaning}.")
    foreign = case.setting.foreign_percent.get(worker.device, 0.0)
    if foreign >= FOREIGN_PERCENT:
        yield f"Other processes keep {worker.device} busy for {foreign:.0f} % of the time."


def _remedy(case: Comparison, worker: Worker, phase: str | None) -> str:
    if case.setting.foreign_percent.get(worker.device, 0.0) >= FOREIGN_PERCENT:
        return f"Stop other processes on {worker.device}, or exclude its cores with `taskset`, and run again."
    if worker.device in case.setting.serving_devices:
        return f"Servers share {worker.device} with it: try `--strategy allreduce`, or move them with `ps:place=own`."
    if phase == "input":
        return (
            f"Check the input of {worker.name}; `--feed dataset:prefetch=2,loaders=1` loads batches in another process."
        )
    if case.setting.emulated:
        return f"Leave out {worker.device}, or try `--strategy ps:mode=stale`, which lets the others continue."
    return (
        f"Check {worker.device} for a slower core, another process or longer samples. If you cannot change it, "
        "`--strategy ps:mode=stale` lets the others continue."
    )


def spread(case: Comparison) -> Iterator[Cause]:
    """Yield the waiting that no single worker causes: a different one is the slowest in every step."""
    workers = len(case.setting.workers)
    if not case.setting.traffic.synchronous or workers < 2:
        return
    seconds = case.setting.phases.wait - systematic_wait(case.slow, workers)
    if not case.noticeable(seconds):
        return
    deviation = spread_seconds(case.setting)
    who = "beyond what the straggler explains" if case.slow and link_cost(case) is None else "for it"
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
    worker, delay, workers = case.setting.workers[case.uneven.rank], case.uneven.seconds, len(case.setting.workers)
    phase, longer = _longest_excess(worker, case.phases)
    yield Cause(
        name="straggler",
        headline="Straggler",
        seconds=delay / workers,
        rank=worker.rank,
        sentence=f"each step of {worker.name} takes {ms(delay)} longer than the others', {ms(longer)} of it in {phase}",
        evidence=(f"Nobody waits for it, so the mean step is longer by {ms(delay / workers)}.",),
        remedy=_remedy(case, worker, phase),
    )

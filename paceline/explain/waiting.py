"""Causes of waiting: a slow worker, workers that vary, a staleness bound."""

from collections.abc import Iterator

from paceline.breakdown.arrivals import spread_seconds, systematic_wait
from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import FOREIGN_PERCENT, Worker, mean
from paceline.explain.cause import Cause
from paceline.measure.extremes import expected_maximum
from paceline.numbers import ms, percent
from paceline.record_parts import Phases

_SAME_CPU = 0.5
"""A slow worker that spends less than this share of its delay computing waits for something during it."""


def slow_worker(case: Comparison) -> Iterator[Cause]:
    """The worker that all wait for, by what it does longer than its peers."""
    if not case.slow:
        return
    late = case.slow[0]
    worker = case.setting.workers[late.rank]
    phase, longer = _longest_excess(worker, case.phases)
    seconds = f"{ms(late.seconds)} after the others, late in {percent(late.share)} of the steps"
    own = f"its {phase} takes {ms(longer)} longer than theirs" if phase else "no phase of its own tells why"
    also = ", ".join(case.setting.workers[other.rank].name for other in case.slow[1:])
    yield Cause(
        name="slow worker",
        headline="A slow worker",
        seconds=late.seconds,
        rank=late.rank,
        sentence=f"{worker.name} arrives {seconds}; {own}",
        evidence=(
            f"The others wait {ms(case.phases.wait)} of every step.",
            *(_why(case, worker, late.seconds)),
            *([f"Late as well: {also}."] if also else []),
        ),
        remedy=_remedy(case, worker, phase),
    )


def _longest_excess(worker: Worker, peers: Phases) -> tuple[str | None, float]:
    """The phase that a worker spends most more on than its peers, and how much; waiting is never its own."""
    excess = {name: seconds - peers.of(name) for name, seconds in worker.phases if name != "wait"}
    name = max(excess, key=lambda phase: excess[phase])
    return (name, excess[name]) if excess[name] > 0 else (None, 0.0)


def _why(case: Comparison, worker: Worker, late: float) -> Iterator[str]:
    peers_cpu = None if case.setting.emulated else mean(peer.cpu_seconds for peer in case.peers)
    if worker.cpu_seconds is not None and peers_cpu is not None:
        more = worker.cpu_seconds - peers_cpu
        told = f"It spends {ms(worker.cpu_seconds)} of CPU time per step, the others {ms(peers_cpu)}: "
        yield told + (
            "it does not compute more, it waits or is held up." if more < _SAME_CPU * late else "it computes more."
        )
    foreign = case.setting.foreign_percent.get(worker.device, 0.0)
    if foreign >= FOREIGN_PERCENT:
        yield f"Other processes keep {worker.device} busy for {foreign:.0f} % of the time."


def _remedy(case: Comparison, worker: Worker, phase: str | None) -> str:
    if case.setting.foreign_percent.get(worker.device, 0.0) >= FOREIGN_PERCENT:
        return f"End the other processes on {worker.device}, or leave its cores out with `taskset`, and run again."
    if worker.device in case.setting.serving_devices:
        return f"Servers share {worker.device} with it: `--strategy allreduce` has none, `ps:place=own` moves them."
    if phase == "input":
        return (
            f"Look at what feeds {worker.name}; `--feed dataset:prefetch=2,loaders=1` takes it off the worker's path."
        )
    if case.setting.emulated:
        return f"Leave out {worker.device}, or `--strategy ps:mode=stale`, which lets the others go on."
    return (
        f"Look at {worker.device}: a slower core, another process, longer samples. Where it has to stay, "
        "`--strategy ps:mode=stale` lets the others go on."
    )


def spread(case: Comparison) -> Iterator[Cause]:
    """Waiting that no worker is to blame for: in every step another one is the slowest."""
    workers = len(case.setting.workers)
    if not case.setting.traffic.synchronous or workers < 2:
        return
    seconds = case.setting.phases.wait - systematic_wait(case.slow, workers)
    if not case.noticeable(seconds):
        return
    deviation = spread_seconds(case.setting)
    who = "beyond what a slow worker explains" if case.slow else "for whoever it is"
    evidence = []
    if deviation is not None:
        expected = deviation * expected_maximum(workers)
        evidence.append(
            f"A worker's arrival varies by ±{ms(deviation)}; of {workers} equal workers the last is then expected "
            f"{ms(expected)} behind the mean, and the mean wait is {ms(case.setting.phases.wait)}."
        )
    foreign = max(case.setting.foreign_percent.values(), default=0.0)
    if foreign >= FOREIGN_PERCENT:
        evidence.append(f"Other processes keep a device busy for up to {foreign:.0f} % of the time.")
    yield Cause(
        name="spread",
        headline="Uneven steps",
        seconds=seconds,
        sentence=f"workers take turns at being last, and a step waits {ms(seconds)} {who}",
        evidence=tuple(evidence),
        remedy=(
            "End other processes on this machine and run again."
            if foreign >= FOREIGN_PERCENT
            else f"Longer steps vary less in proportion: `--batch {2 * case.setting.batch}`."
        ),
    )


def held_back(case: Comparison) -> Iterator[Cause]:
    """Without a barrier: what the staleness bound costs, and who the others are held back for."""
    traffic, seconds = case.setting.traffic, case.setting.phases.wait
    if traffic.bound is None or not case.noticeable(seconds):
        return
    slowest = min(case.setting.workers, key=lambda worker: worker.phases.wait)
    held = (f"{worker.name} {ms(worker.phases.wait)}" for worker in case.setting.workers)
    yield Cause(
        name="staleness bound",
        headline="Held back",
        seconds=seconds,
        rank=slowest.rank,
        sentence=f"the bound of {traffic.bound} steps holds workers back for {ms(seconds)} of a step, mostly for "
        f"{slowest.name}, which waits least",
        evidence=(f"Held back per step: {', '.join(held)}.",),
        remedy=f"`--strategy ps:mode=stale,bound={2 * (traffic.bound or 1)}`, or `ps:mode=async`; watch the loss.",
    )


def uneven_pace(case: Comparison) -> Iterator[Cause]:
    """Without a barrier a slow worker delays nobody, but makes fewer steps itself."""
    if case.uneven is None:
        return
    worker, delay, workers = case.setting.workers[case.uneven.rank], case.uneven.seconds, len(case.setting.workers)
    phase, longer = _longest_excess(worker, case.phases)
    yield Cause(
        name="slow worker",
        headline="A slow worker",
        seconds=delay / workers,
        rank=worker.rank,
        sentence=f"{worker.name} takes {ms(delay)} longer a step than the others, {ms(longer)} of it in {phase}",
        evidence=(f"Nobody waits for it, so the mean step is longer by {ms(delay / workers)}.",),
        remedy=_remedy(case, worker, phase),
    )

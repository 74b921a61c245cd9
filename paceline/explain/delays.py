"""Why one worker is later than its peers: it waits longer for its core, computes more, or is blocked in a phase."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from paceline.breakdown.arrivals import LateWorker
from paceline.breakdown.comparison import Comparison
from paceline.breakdown.own_times import QUEUE
from paceline.breakdown.setting import FOREIGN_PERCENT, Worker, mean
from paceline.numbers import ms
from paceline.record_parts import Phases

Kind = Literal["queue", "steal", "cpu", "blocked"]


@dataclass(frozen=True)
class Delay:
    """What a worker does longer than its peers; seconds of each kind, None where that was not measured."""

    seconds: float
    phase: str | None
    """The phase that is longer, without queueing for a core where that is known; None where none is."""

    longer: float
    queue: float | None
    cpu: float | None

    steal: float = 0.0
    blocked: float = 0.0

    @property
    def kind(self) -> Kind | None:
        """What most of the delay is; None where that is not known."""
        if self.queue is None:
            return None
        by_kind: dict[Kind, float] = {
            "queue": self.queue,
            "cpu": self.cpu or 0.0,
            "steal": self.steal,
            "blocked": self.blocked,
        }
        largest = max(by_kind, key=lambda kind: by_kind[kind])
        return largest if by_kind[largest] >= self.seconds / 2 else None

    @property
    def words(self) -> str:
        """What is longer, as the end of a sentence."""
        if self.kind == "queue":
            return f"it waits {ms(self.queue or 0.0)} longer for its core than they do"
        if self.kind == "steal":
            return f"other virtual machines have its core for {ms(self.steal)} longer than theirs"
        if self.phase is None:
            return "none of its phases explains why"
        return f"its {self.phase} takes {ms(self.longer)} longer than theirs"


def longest_excess(own: Phases, peers: Phases) -> tuple[str | None, float]:
    """The phase in which a worker exceeds its peers most, and by how much; waiting does not count."""
    excess = {name: seconds - peers.of(name) for name, seconds in own if name != "wait"}
    name = max(excess, key=lambda phase: excess[phase])
    return (name, excess[name]) if excess[name] > 0 else (None, 0.0)


def why(case: Comparison, worker: Worker, late: LateWorker) -> Delay:
    """Divide a worker's delay by comparing it with its peers; in single steps where they are known, else by means."""
    queued, computed = _more_queued(case, worker), _more_cpu(case, worker)
    phase, longer = longest_excess(case.steps.phases(worker), case.phases)
    if max(late.longer.values(), default=0.0) > 0:
        name = max(late.longer, key=lambda part: late.longer[part])
        if name != QUEUE:
            phase, longer = name, late.longer[name]
        queued = late.longer.get(QUEUE, 0.0) if late.parts_known else queued
    if queued is None or computed is None:
        return Delay(late.seconds, phase, longer, queued, computed)
    rest = max(0.0, late.seconds - queued - max(0.0, computed))
    steal = min(rest, _more_stolen(case, worker))
    return Delay(late.seconds, phase, longer, queued, computed, steal, rest - steal)


def _more_queued(case: Comparison, worker: Worker) -> float | None:
    """Seconds per step that a worker queued longer for its core than its peers did."""
    own, peers = case.steps.queued(worker), mean(case.steps.queued(peer) for peer in case.peers)
    if own is None or peers is None:
        own, peers = worker.queued_seconds, mean(peer.queued_seconds for peer in case.peers)
    return None if own is None or peers is None or case.setting.emulated else own - peers


def _more_cpu(case: Comparison, worker: Worker) -> float | None:
    if worker.thread_cpu is not None and all(peer.thread_cpu for peer in case.peers):
        own: float | None = worker.thread_cpu.own_total
        peers = mean(peer.thread_cpu.own_total if peer.thread_cpu else None for peer in case.peers)
    else:
        own, peers = worker.cpu_seconds, mean(peer.cpu_seconds for peer in case.peers)
    return None if own is None or peers is None or case.setting.emulated else own - peers


def _more_stolen(case: Comparison, worker: Worker) -> float:
    stolen = case.setting.stolen_percent
    others = mean(stolen.get(peer.device) for peer in case.peers) or 0.0
    return max(0.0, stolen.get(worker.device, 0.0) - others) / 100 * case.setting.step_seconds


def evidence_of(case: Comparison, worker: Worker, delay: Delay) -> Iterator[str]:
    """The measurements that tell the kinds of a delay apart."""
    queue, cpu = delay.queue, delay.cpu
    known = [
        f"queues {ms(abs(queue))} {'longer' if queue >= 0 else 'less'} for its core" if queue is not None else "",
        f"computes {ms(abs(cpu))} {'more' if cpu >= 0 else 'less'}" if cpu is not None else "",
        f"is blocked for {ms(delay.blocked)} (neither computing nor waiting for a core)"
        if queue is not None and cpu is not None
        else "",
    ]
    if any(known):
        yield f"Per step, compared with its peers, it {', '.join(filter(None, known))}."
    foreign = case.setting.foreign_percent.get(worker.device, 0.0)
    if foreign < FOREIGN_PERCENT:
        return
    busy = f"Other processes keep {worker.device} busy for {foreign:.0f} % of the time"
    if delay.kind == "queue":
        yield f"{busy}."
    elif queue is not None:
        yield f"{busy}, which is not why: its peers queue about as long as it does."
    else:
        yield f"{busy}; whether it queued for its core was not measured."


def remedy_of(case: Comparison, worker: Worker, delay: Delay) -> str:
    """What to do about a delay of this kind, in this phase."""
    foreign = case.setting.foreign_percent.get(worker.device, 0.0) >= FOREIGN_PERCENT
    unknown = delay.queue is None
    if case.setting.emulated:
        return f"Leave out {worker.device}, or try `--strategy ps:mode=stale`, which lets the others continue."
    if worker.device in case.setting.serving_devices and (unknown or delay.kind == "queue"):
        return f"Servers share {worker.device} with it: try `--strategy allreduce`, or move them with `ps:place=own`."
    if delay.kind == "queue" or (unknown and foreign):
        return f"Stop other processes on {worker.device}, or exclude its cores with `taskset`, and run again."
    if delay.kind == "steal":
        return f"Run again when the host's other virtual machines are less busy, or without {worker.device}."
    if delay.kind == "cpu" and delay.phase != "input":
        return (
            f"Check why {worker.name} computes more in {delay.phase}: longer samples, more work, or a slower core. "
            "If you cannot change it, `--strategy ps:mode=stale` lets the others continue."
        )
    return phase_remedy(case, worker, delay.phase)


def phase_remedy(case: Comparison, worker: Worker, phase: str | None) -> str:
    """What to look at where one worker takes longer in a phase and does not compute more."""
    if phase == "input":
        return (
            f"Check the input of {worker.name}; `--feed dataset:prefetch=2,loaders=1` loads batches in another process."
        )
    if phase == "update":
        return f"Find what the optimizer of {worker.name} waits for: a lock, a file, a sleep."
    if phase == "exchange":
        return f"Check the network link of {worker.name}: it finishes the exchange after the others."
    if phase in ("forward", "backward"):
        return (
            f"Find what {phase} of {worker.name} waits for: a lock, a file, a sleep. If you cannot change it, "
            "`--strategy ps:mode=stale` lets the others continue."
        )
    return f"Look at {worker.name} in a trace (`--trace`): no phase alone explains its delay."

"""Causes of slower compute: shared cores, caches and memory, and communication that uses the core during backward."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import MeasuredSetting, Worker, mean
from paceline.breakdown.steps import Steps
from paceline.explain.cause import Cause
from paceline.explain.cores import main_user
from paceline.numbers import ms, percent
from paceline.record_parts import PhaseName, ThreadSeconds

_COMPUTE: tuple[PhaseName, ...] = ("forward", "backward")


@dataclass(frozen=True)
class _Core:
    """A device's compute in one step: its wall time, and the CPU time that its workers got."""

    wall: float
    cpu: float
    queued: float | None
    """Seconds of the compute in which workers were ready to run but no core was free."""

    @property
    def lost(self) -> float:
        """Compute time in which the workers did not have the core; a lower bound, as CPU time covers the whole step."""
        return max(0.0, self.wall - self.cpu)


@dataclass(frozen=True)
class Compute:
    """Forward and backward of some workers by what the thread that trains did: seconds per step, by phase."""

    cpu: dict[PhaseName, float]
    queued: dict[PhaseName, float]
    blocked: dict[PhaseName, float]
    """Neither on a core nor waiting for one."""

    def active(self, phase: PhaseName) -> float:
        """Seconds in which a phase computed or waited for a core."""
        return self.cpu[phase] + self.queued[phase]

    def longer(self, blocked: dict[PhaseName, float]) -> "Compute":
        """The same with so much more time in which it was blocked."""
        return replace(self, blocked={name: self.blocked[name] + blocked[name] for name in self.blocked})


def slower_compute(case: Comparison) -> Iterator[Cause]:
    """Yield what slowed forward and backward; with a baseline, only the time beyond the ideal."""
    now = compute_of(case.steps, case.peers)
    base = compute_of(case.baseline_steps, case.baseline_steps.setting.workers) if case.baseline_steps else None
    if now is not None and base is not None:
        now = now.longer({name: case.usual_pauses(name) for name in _COMPUTE})
        base = base.longer({name: case.baseline_pauses(name) for name in _COMPUTE})
    if now is not None and (case.baseline is None or base is not None):
        yield from _by_thread(case, now, base)
    elif case.baseline is None:
        core = _core(case.steps, case.peers)
        if core is not None:
            yield from _without_core(case, core.lost, core)
    else:
        yield from _by_process(case)


def compute_of(steps: Steps, workers: Sequence[Worker]) -> Compute | None:
    """What the workers' threads did in forward and backward; None where that was not measured or says nothing.

    It says something where a worker computes with one thread on a CPU.
    """
    if not _comparable(steps.setting) or any(w.thread_cpu is None or w.thread_queued is None for w in workers):
        return None
    shared = steps.setting.spec.workers_per_device
    cpu = ThreadSeconds.mean([worker.thread_cpu for worker in workers if worker.thread_cpu])
    waits = [worker.queued_phases(shared) or {} for worker in workers]
    rows: dict[str, dict[PhaseName, float]] = {"cpu": {}, "queued": {}, "blocked": {}}
    for name, seconds in cpu.own:
        if name not in _COMPUTE:
            continue
        rows["cpu"][name] = seconds
        rows["queued"][name] = sum(wait.get(name, 0.0) for wait in waits) / len(waits)
        all_queued = sum(dict(w.thread_queued.own)[name] for w in workers if w.thread_queued) / len(workers)
        wall = sum(w.phases.of(name) - steps.removed(w.rank, name) for w in workers) / len(workers)
        rows["blocked"][name] = max(0.0, wall - seconds - all_queued)
    return Compute(**rows)


def _by_thread(case: Comparison, now: Compute, base: Compute | None) -> Iterator[Cause]:
    """Divide compute exactly: waiting for a core, more CPU time for the same work, and being blocked, by phase."""
    scale = case.gap.worker_scale if case.gap else 0.0
    queued = case.queued or 0.0
    stolen = max(case.setting.stolen_percent.values(), default=0.0) / 100 * case.setting.step_seconds
    grown = 0.0
    if base is not None:
        shared = case.setting.spec.workers_per_device
        grown = sum(shared * now.cpu[name] - scale * base.cpu[name] for name in _COMPUTE)
        in_backward = min(_exchange_work(case, now, base), max(0.0, queued) + max(0.0, grown))
        if case.noticeable(in_backward):
            yield _in_backward(case, in_backward, now, base)
            from_queue = min(max(0.0, queued), in_backward)
            queued, grown = queued - from_queue, grown - (in_backward - from_queue)
    for name in _COMPUTE:
        blocked = now.blocked[name] - (scale * base.blocked[name] if base else 0.0)
        # The system believes that it gave a core which another virtual machine has (steal): nobody queues for it.
        elsewhere = min(max(0.0, blocked), stolen)
        stolen -= elsewhere
        queued += elsewhere
        if case.noticeable(blocked - elsewhere):
            yield _blocked(blocked - elsewhere, name, now)
    if case.noticeable(queued):
        computes, waits = sum(now.cpu.values()), sum(now.queued.values())
        yield _shared_cores(
            case,
            queued,
            f"In forward and backward they compute for {ms(computes)} and wait for a core for {ms(waits)}.",
        )
    if base is not None and case.noticeable(grown):
        yield _more_cpu(case, grown, sum(now.cpu.values()), scale * sum(base.cpu.values()))


def _exchange_work(case: Comparison, now: Compute, base: Compute) -> float:
    """Seconds by which active backward grew more than forward: only backward shares its core with communication.

    over = backward − f · s_w · baseline's backward, f = forward ÷ (s_w · baseline's forward), at least 1.
    """
    assert case.gap is not None
    scale = case.gap.worker_scale
    if not case.setting.traffic.exchanges or not base.active("forward"):
        return 0.0
    slowdown = max(1.0, now.active("forward") / (scale * base.active("forward")))
    return max(0.0, now.active("backward") - slowdown * scale * base.active("backward"))


def _in_backward(case: Comparison, seconds: float, now: Compute | None = None, base: Compute | None = None) -> Cause:
    hidden = case.setting.hidden_seconds
    overlapped = [f"Communication overlaps with {ms(hidden)} of each backward."] if hidden else []
    assert case.gap is not None
    assert case.baseline is not None
    scale = case.gap.worker_scale
    forward, backward = (
        now.active(p) / (scale * base.active(p))
        if now and base and base.active(p)
        else case.phases.of(p) / (scale * case.baseline.phases.of(p))
        for p in _COMPUTE
    )
    return Cause(
        name="exchange work in backward",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"backward takes {ms(seconds)} longer than forward's slowdown explains: communication uses its core",
        evidence=(f"Forward takes {forward:.2f} × the baseline's time, backward {backward:.2f} ×.", *overlapped),
        remedy="Try `--cores-per-device 2`: on a CPU overlapped communication needs a core, and this gives it one.",
    )


def _blocked(seconds: float, phase: PhaseName, now: Compute) -> Cause:
    return Cause(
        name="blocked",
        headline=f"Blocked {phase}",
        seconds=seconds,
        sentence=f"{phase} is blocked (neither computing nor waiting for a core) for {ms(seconds)} of a step",
        evidence=(
            f"Of {phase}, {ms(now.cpu[phase])} is CPU time, {ms(now.queued[phase])} waiting for a core and "
            f"{ms(now.blocked[phase])} neither.",
        ),
        remedy=f"Find what {phase} waits for: a lock, a file, a sleep. A trace (`--trace`) shows the steps.",
    )


def _by_process(case: Comparison) -> Iterator[Cause]:
    """The same by the CPU time of the whole step, where the thread's was not measured."""
    excess = case.excess(*_COMPUTE)
    if not case.noticeable(excess):
        return
    in_backward = _slower_backward(case, excess)
    if case.noticeable(in_backward):
        yield _in_backward(case, in_backward)
    else:
        in_backward = 0.0
    yield from _cores_or_caches(case, excess - in_backward)


def _slower_backward(case: Comparison, excess: float) -> float:
    """As `_exchange_work`, by durations."""
    assert case.baseline is not None
    assert case.gap is not None
    scale, base = case.gap.worker_scale, case.baseline.phases
    if not case.setting.traffic.exchanges or not base.forward:
        return 0.0
    slowdown = max(1.0, case.phases.forward / (scale * base.forward))
    return min(max(0.0, case.phases.backward - slowdown * scale * base.backward), excess)


def _cores_or_caches(case: Comparison, seconds: float) -> Iterator[Cause]:
    """Split slower compute by CPU time: time without the core, and more CPU time for the same work."""
    assert case.baseline_steps is not None
    assert case.gap is not None
    if not case.noticeable(seconds):
        return
    now, base, scale = (
        _core(case.steps, case.peers),
        _core(case.baseline_steps, case.baseline_steps.setting.workers),
        case.gap.worker_scale,
    )
    if now is None or base is None:
        yield _undivided(seconds)
        return
    lost, grown = max(0.0, now.lost - scale * base.lost), max(0.0, now.cpu - scale * base.cpu)
    if lost + grown == 0:
        yield _undivided(seconds)
        return
    sharing = seconds * lost / (lost + grown)
    yield from _without_core(case, sharing, now)
    if case.noticeable(seconds - sharing):
        yield _more_cpu(case, seconds - sharing, now.cpu, scale * base.cpu)


def _more_cpu(case: Comparison, seconds: float, cpu: float, ideal_cpu: float) -> Cause:
    used = f"CPU time per step: {ms(cpu)}, {percent(cpu / ideal_cpu)} of"
    if case.setting.spec.workers == 1 and not case.setting.traffic.servers:
        return Cause(
            name="the strategy's own work",
            headline="Slower compute",
            seconds=seconds,
            sentence=f"the same work takes {ms(seconds)} more CPU time with this strategy, although the worker is "
            "alone",
            evidence=(f"{used} the baseline's.",),
            remedy="Use `--strategy independent` for one worker; with more workers this is the cost of "
            "synchronisation.",
        )
    return Cause(
        name="caches and memory",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"the same work takes {ms(seconds)} more CPU time: workers share caches and memory",
        evidence=(f"{used} ideal.",),
        remedy="Make the working set smaller: a smaller `--batch`, or `--precision bf16`. "
        "Hyper-threads share a core; `lscpu -e` lists them.",
    )


def _undivided(seconds: float) -> Cause:
    return Cause(
        name="slower compute",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"forward and backward take {ms(seconds)} more than ideal",
        evidence=("CPU time does not show whether cores were shared or memory was slow.",),
        remedy="Run again on a quiet machine, and compare with `--strategy independent` on as many workers.",
    )


def _without_core(case: Comparison, seconds: float, core: _Core) -> Iterator[Cause]:
    """Split compute time without the core into queueing for it and being blocked.

    Where the system does not count the queue, the time that other work kept the core busy is the upper limit.
    """
    outside = max(case.setting.outside_percent.values(), default=100.0)
    stolen = max(case.setting.stolen_percent.values(), default=0.0)
    # The system believes that it gave a core which another virtual machine has (steal): nobody queues for it.
    others = (outside if core.queued is None else stolen) / 100 * case.setting.step_seconds + (core.queued or 0.0)
    shared = seconds * min(1.0, others / core.lost) if core.lost else 0.0
    if case.noticeable(shared):
        yield _shared_cores(
            case,
            shared,
            f"Compute takes {ms(core.wall)} of a step; the device gave its workers at most {ms(core.cpu)} of CPU time.",
            *([f"They were ready to run but queued for {ms(core.queued)} of it."] if core.queued is not None else []),
        )
    if case.noticeable(seconds - shared):
        yield Cause(
            name="blocked",
            headline="Slower compute",
            seconds=seconds - shared,
            sentence=f"forward and backward are blocked (not waiting for CPU) for {ms(seconds - shared)} of a step",
            evidence=(f"They take {ms(core.wall)}, of which at most {ms(core.cpu)} is CPU time.",),
            remedy="Find what they wait for: a lock, a file, a sleep. A trace (`--trace`) shows the phase.",
        )


def _shared_cores(case: Comparison, seconds: float, *evidence: str) -> Cause:
    user = main_user(case.setting)
    others, stolen = (
        ", ".join(f"{device} {share:.0f} %" for device, share in shares.items() if share >= 1)
        for shares in (case.setting.outside_percent, case.setting.stolen_percent)
    )
    return Cause(
        name="shared cores",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"workers wait for a core for {ms(seconds)} of each step, because {user.reason}",
        evidence=(
            *evidence,
            *([f"Busy with work other than the workers': {others}."] if others else []),
            *([f"Of that, taken by other virtual machines on the same host (steal): {stolen}."] if stolen else []),
        ),
        remedy=user.remedy,
    )


def _comparable(setting: MeasuredSetting) -> bool:
    """Whether CPU time says something: where workers compute with one thread on a CPU."""
    environment = setting.runs[0].record.environment
    return environment.device_kind == "cpu" and environment.threads_per_worker == 1


def _core(steps: Steps, workers: Sequence[Worker]) -> _Core | None:
    """The compute of one device by the CPU time of the whole step; None where that says nothing."""
    setting = steps.setting
    cpu = mean(worker.cpu_seconds for worker in workers)
    if cpu is None or not _comparable(setting):
        return None
    wall = sum(w.phases.of(name) - steps.removed(w.rank, name) for w in workers for name in _COMPUTE) / len(workers)
    return _Core(wall, cpu * setting.spec.workers_per_device, mean(worker.queued_seconds for worker in workers))

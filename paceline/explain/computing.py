"""Causes of slower compute: shared cores, caches and memory, and communication that uses the core during backward."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import FOREIGN_PERCENT, MeasuredSetting, Worker, mean
from paceline.explain.cause import Cause
from paceline.numbers import ms, percent
from paceline.record_parts import PhaseName

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


def slower_compute(case: Comparison) -> Iterator[Cause]:
    """Yield what slowed forward and backward; with a baseline, only the time beyond the ideal."""
    if case.baseline is None:
        yield from _shared_cores_alone(case)
        return
    excess = case.excess(*_COMPUTE)
    if not case.noticeable(excess):
        return
    in_backward = _exchange_work(case, excess)
    if case.noticeable(in_backward):
        yield _in_backward(case, in_backward)
    else:
        in_backward = 0.0
    yield from _cores_or_caches(case, excess - in_backward)


def _exchange_work(case: Comparison, excess: float) -> float:
    """Seconds by which backward slowed down more than forward: only backward shares its core with communication.

    over = backward − f · s_w · baseline's backward, f = forward ÷ (s_w · baseline's forward), at least 1.
    """
    assert case.baseline is not None
    assert case.gap is not None
    scale, base = case.gap.worker_scale, case.baseline.phases
    if not case.setting.traffic.exchanges or not base.forward:
        return 0.0
    slowdown = max(1.0, case.phases.forward / (scale * base.forward))
    return min(max(0.0, case.phases.backward - slowdown * scale * base.backward), excess)


def _in_backward(case: Comparison, seconds: float) -> Cause:
    hidden = case.setting.hidden_seconds
    overlapped = [f"Communication overlaps with {ms(hidden)} of each backward."] if hidden else []
    assert case.gap is not None
    assert case.baseline is not None
    forward, backward = (case.phases.of(p) / (case.gap.worker_scale * case.baseline.phases.of(p)) for p in _COMPUTE)
    return Cause(
        name="exchange work in backward",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"backward takes {ms(seconds)} longer than forward's slowdown explains: communication uses its core",
        evidence=(f"Forward takes {forward:.2f} × the baseline's time, backward {backward:.2f} ×.", *overlapped),
        remedy="Try `--cores-per-device 2`: on a CPU overlapped communication needs a core, and this gives it one.",
    )


def _cores_or_caches(case: Comparison, seconds: float) -> Iterator[Cause]:
    """Split slower compute by CPU time: time without the core, and more CPU time for the same work."""
    assert case.baseline is not None
    assert case.gap is not None
    if not case.noticeable(seconds):
        return
    now, base, scale = (
        _core(case.setting, case.peers),
        _core(case.baseline, case.baseline.workers),
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
    if not case.noticeable(seconds - sharing):
        return
    if case.setting.spec.workers == 1 and not case.setting.traffic.servers:
        yield _own_work(seconds - sharing, now, scale * base.cpu)
    else:
        yield Cause(
            name="caches and memory",
            headline="Slower compute",
            seconds=seconds - sharing,
            sentence=f"the same work takes {ms(seconds - sharing)} more CPU time: workers share caches and memory",
            evidence=(f"CPU time per step: {ms(now.cpu)}, {percent(now.cpu / (scale * base.cpu))} of ideal.",),
            remedy="Make the working set smaller: a smaller `--batch`, or `--precision bf16`. "
            "Hyper-threads share a core; `lscpu -e` lists them.",
        )


def _own_work(seconds: float, now: _Core, ideal_cpu: float) -> Cause:
    return Cause(
        name="the strategy's own work",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"the same work takes {ms(seconds)} more CPU time with this strategy, although the worker is alone",
        evidence=(f"CPU time per step: {ms(now.cpu)}, {percent(now.cpu / ideal_cpu)} of the baseline's.",),
        remedy="Use `--strategy independent` for one worker; with more workers this is the cost of synchronisation.",
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


def _shared_cores_alone(case: Comparison) -> Iterator[Cause]:
    core = _core(case.setting, case.peers)
    if core is not None:
        yield from _without_core(case, core.lost, core)


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
        yield _shared_cores(case, shared, core)
    if case.noticeable(seconds - shared):
        yield Cause(
            name="blocked",
            headline="Slower compute",
            seconds=seconds - shared,
            sentence=f"forward and backward are blocked (not waiting for CPU) for {ms(seconds - shared)} of a step",
            evidence=(f"With the update they take {ms(core.wall)}, of which at most {ms(core.cpu)} is CPU time.",),
            remedy="Find what they wait for: a lock, a file, a sleep. A trace (`--trace`) shows the phase.",
        )


def _shared_cores(case: Comparison, seconds: float, core: _Core) -> Cause:
    who, remedy = _who_shares(case.setting)
    others, stolen = (
        ", ".join(f"{device} {share:.0f} %" for device, share in shares.items() if share >= 1)
        for shares in (case.setting.outside_percent, case.setting.stolen_percent)
    )
    return Cause(
        name="shared cores",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"workers wait for a core for {ms(seconds)} of each step, because {who}",
        evidence=(
            f"Compute takes {ms(core.wall)} of a step; the device gave its workers at most {ms(core.cpu)} of CPU time.",
            *([f"They were ready to run but queued for {ms(core.queued)} of it."] if core.queued is not None else []),
            *([f"Busy with work other than the workers': {others}."] if others else []),
            *([f"Of that, taken by other virtual machines on the same host (steal): {stolen}."] if stolen else []),
        ),
        remedy=remedy,
    )


def _who_shares(setting: MeasuredSetting) -> tuple[str, str]:
    """Return who has the cores while workers wait for them, and what to do about it."""
    foreign = max(setting.foreign_percent.values(), default=0.0)
    served = max(setting.served_percent.values(), default=0.0) if setting.serving_devices else 0.0
    stolen = max(setting.stolen_percent.values(), default=0.0)
    quieter = "other processes use it", "Stop other processes on this machine, or use fewer workers."
    if stolen >= FOREIGN_PERCENT and stolen >= max(foreign, served):
        return (
            "other virtual machines on the same host use it (steal)",
            "Run again when they are less busy, or on cores that are not shared.",
        )
    if foreign >= FOREIGN_PERCENT and foreign >= served:
        return quieter
    if setting.serving_devices:
        return "parameter servers share it", "Try `--strategy allreduce`, or `ps:place=own` where a core is free."
    if setting.spec.workers_per_device > 1:
        return f"{setting.spec.workers_per_device} workers share each one", "Try `--workers-per-device 1`."
    return quieter


def _core(setting: MeasuredSetting, workers: Sequence[Worker]) -> _Core | None:
    """The compute of one device; None unless workers compute with one thread on a CPU, where CPU time is comparable."""
    environment = setting.runs[0].record.environment
    cpu = mean(worker.cpu_seconds for worker in workers)
    if cpu is None or environment.device_kind != "cpu" or environment.threads_per_worker != 1:
        return None
    wall = sum(worker.phases.of(name) for worker in workers for name in _COMPUTE) / len(workers)
    if not setting.traffic.servers:  # otherwise servers update, and the worker only waits
        wall += sum(worker.phases.update for worker in workers) / len(workers)
    return _Core(wall, cpu * setting.spec.workers_per_device, mean(worker.queued_seconds for worker in workers))

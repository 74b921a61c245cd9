"""Causes of slower computing: cores that are shared, caches and memory, and the exchange's own work in backward."""

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
    """A device's time in a step: wall time of its computing, and CPU time that its workers got."""

    wall: float
    cpu: float
    queued: float | None
    """Of the computing: ready to run, and no core free."""

    @property
    def lost(self) -> float:
        """Computing in which the workers did not have the core; a lower bound, as CPU time holds all of a step."""
        return max(0.0, self.wall - self.cpu)


def slower_compute(case: Comparison) -> Iterator[Cause]:
    """With a baseline: forward and backward beyond the ideal, divided by what slowed them."""
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
    """What backward lost beyond forward's slowdown: only backward shares its core with an exchange under way.

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
    under_way = [f"An exchange is under way during {ms(hidden)} of a backward."] if hidden else []
    assert case.gap is not None
    assert case.baseline is not None
    forward, backward = (case.phases.of(p) / (case.gap.worker_scale * case.baseline.phases.of(p)) for p in _COMPUTE)
    return Cause(
        name="exchange work in backward",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"backward takes {ms(seconds)} more than forward's pace explains, as the exchange works on its core",
        evidence=(f"Forward takes {forward:.2f} × the baseline's, backward {backward:.2f} ×.", *under_way),
        remedy="A hidden exchange is not free on a CPU: `--cores-per-device 2` gives it a core of its own.",
    )


def _cores_or_caches(case: Comparison, seconds: float) -> Iterator[Cause]:
    """Divide by CPU time: what a step's computing lost without using the core, and what used it for longer."""
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
            sentence=f"the same work takes {ms(seconds - sharing)} more CPU time, as workers share caches and memory",
            evidence=(f"CPU time per step: {ms(now.cpu)}, {percent(now.cpu / (scale * base.cpu))} of ideal.",),
            remedy="A smaller working set: a smaller `--batch`, or `--precision bf16`. Hyper-threads share cores: "
            "`lscpu -e` shows which.",
        )


def _own_work(seconds: float, now: _Core, ideal_cpu: float) -> Cause:
    return Cause(
        name="the strategy's own work",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"the same work takes {ms(seconds)} more CPU time with this strategy, though the worker is alone",
        evidence=(f"CPU time per step: {ms(now.cpu)}, {percent(now.cpu / ideal_cpu)} of the baseline's.",),
        remedy="For one worker `--strategy independent`; with more workers it is the price of agreeing.",
    )


def _undivided(seconds: float) -> Cause:
    return Cause(
        name="slower compute",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"forward and backward take {ms(seconds)} more than ideal",
        evidence=("CPU time does not tell whether cores were shared or memory was slow.",),
        remedy="Run again on a quiet machine; compare with `--strategy independent` on as many workers.",
    )


def _shared_cores_alone(case: Comparison) -> Iterator[Cause]:
    core = _core(case.setting, case.peers)
    if core is not None:
        yield from _without_core(case, core.lost, core)


def _without_core(case: Comparison, seconds: float, core: _Core) -> Iterator[Cause]:
    """Computing without the core: queued for it, or standing still. Where the system does not count the queue, others
    cannot have had the core for longer than they were busy."""
    outside = max(case.setting.outside_percent.values(), default=100.0)
    stolen = max(case.setting.stolen_percent.values(), default=0.0)
    # A core that another machine has is one the system believes it gave: nobody queues for it.
    others = (outside if core.queued is None else stolen) / 100 * case.setting.step_seconds + (core.queued or 0.0)
    shared = seconds * min(1.0, others / core.lost) if core.lost else 0.0
    if case.noticeable(shared):
        yield _shared_cores(case, shared, core)
    if case.noticeable(seconds - shared):
        yield Cause(
            name="standing still",
            headline="Slower compute",
            seconds=seconds - shared,
            sentence=f"forward and backward stand still for {ms(seconds - shared)} of a step, not for want of a core",
            evidence=(f"They take {ms(core.wall)}, with the update, of which {ms(core.cpu)} at most are CPU time.",),
            remedy="Look for what they wait for: a lock, a file, a sleep; a trace (`--trace`) shows in which phase.",
        )


def _shared_cores(case: Comparison, seconds: float, core: _Core) -> Cause:
    who, remedy = _who_shares(case.setting)
    told, stolen = (
        ", ".join(f"{device} {share:.0f} %" for device, share in shares.items() if share >= 1)
        for shares in (case.setting.outside_percent, case.setting.stolen_percent)
    )
    return Cause(
        name="shared cores",
        headline="Slower compute",
        seconds=seconds,
        sentence=f"workers lack their cores for {ms(seconds)} of a step's computing, as {who}",
        evidence=(
            f"Computing takes {ms(core.wall)} of a step, of which the device gave its workers at most {ms(core.cpu)}.",
            *([f"They were ready to run and queued for {ms(core.queued)} of it."] if core.queued is not None else []),
            *([f"Busy with others than workers: {told}."] if told else []),
            *([f"Of that, given to other machines on the same host (steal): {stolen}."] if stolen else []),
        ),
        remedy=remedy,
    )


def _who_shares(setting: MeasuredSetting) -> tuple[str, str]:
    """Who has the cores while workers lack them, and what to do about it."""
    foreign = max(setting.foreign_percent.values(), default=0.0)
    served = max(setting.served_percent.values(), default=0.0) if setting.serving_devices else 0.0
    stolen = max(setting.stolen_percent.values(), default=0.0)
    quieter = "other processes use them", "End what else runs on this machine, or use fewer workers."
    if stolen >= FOREIGN_PERCENT and stolen >= max(foreign, served):
        return (
            "other machines on the same host have them (steal)",
            "Run again when they are quieter, or on cores that are not shared.",
        )
    if foreign >= FOREIGN_PERCENT and foreign >= served:
        return quieter
    if setting.serving_devices:
        return "servers share them", "`--strategy allreduce`, or `ps:place=own` where a core is free."
    if setting.spec.workers_per_device > 1:
        return f"{setting.spec.workers_per_device} workers share each", "`--workers-per-device 1`."
    return quieter


def _core(setting: MeasuredSetting, workers: Sequence[Worker]) -> _Core | None:
    """Only where a worker computes with one thread on a CPU does wall time compare with CPU time."""
    environment = setting.runs[0].record.environment
    cpu = mean(worker.cpu_seconds for worker in workers)
    if cpu is None or environment.device_kind != "cpu" or environment.threads_per_worker != 1:
        return None
    wall = sum(worker.phases.of(name) for worker in workers for name in _COMPUTE) / len(workers)
    if not setting.traffic.servers:  # servers update: that is no computing here
        wall += sum(worker.phases.update for worker in workers) / len(workers)
    return _Core(wall, cpu * setting.spec.workers_per_device, mean(worker.queued_seconds for worker in workers))

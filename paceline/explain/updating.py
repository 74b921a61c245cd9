"""More causes: the update, devices that only host servers, agreeing when to stop, and time between the phases."""

from collections.abc import Iterator

from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import mean
from paceline.explain.cause import Cause
from paceline.numbers import count, ms


def heavy_update(case: Comparison) -> Iterator[Cause]:
    """Yield the time that workers or servers need to apply the gradients."""
    seconds = case.excess("update")
    if not case.noticeable(seconds):
        return
    servers = case.setting.traffic.servers
    blocked = _blocked(case)
    parameters = case.setting.runs[0].record.workload.parameters
    used = case.setting.server_percent
    yield Cause(
        name="update",
        headline="Heavy update",
        seconds=seconds,
        sentence=f"the update takes {ms(seconds)}{' more than ideal' if case.baseline else ''} per step"
        f"{', while workers wait for the servers' if servers else ''}",
        evidence=(
            f"It updates {parameters:,} parameters regardless of the batch.",
            *([f"For {ms(blocked)} it is blocked: neither computing nor waiting for a core."] if blocked else []),
            *([f"Servers use {used:.0f} % of their cores."] if used is not None else []),
        ),
        remedy=_remedy(case, seconds, blocked),
    )


def _blocked(case: Comparison) -> float:
    """Seconds of the update in which the peers neither compute nor wait for a core; 0 where that was not measured."""
    cpu = mean(worker.thread_cpu.update if worker.thread_cpu else None for worker in case.peers)
    if cpu is None or case.setting.traffic.servers:  # a worker waits for the servers' update
        return 0.0
    return case.phases.update - cpu


def _remedy(case: Comparison, seconds: float, blocked: float) -> str:
    servers, accumulate = case.setting.traffic.servers, 2 * case.setting.spec.accumulate
    if servers:
        return f"Try `--strategy ps:servers={2 * servers}`: more servers share the update."
    if blocked > seconds / 2:
        return "Find what the optimizer waits for: a lock, a file, a sleep. It hardly computes."
    return (
        f"Try `--batch {2 * case.setting.batch} --accumulate {accumulate}`: half as many updates for the same samples; "
        "or an optimizer with less state."
    )


def serving_devices(case: Comparison) -> Iterator[Cause]:
    """Yield the cost of devices that only host servers: the ideal counts them, but they compute nothing."""
    seconds = case.gap.components["servers"] if case.gap else 0.0
    if not case.noticeable(seconds):
        return
    serving = case.setting.devices - case.setting.worker_devices
    yield Cause(
        name="servers' devices",
        headline="Devices without workers",
        seconds=seconds,
        sentence=f"{count(serving, 'device')} only host{'s' if serving == 1 else ''} servers; workers on them "
        f"would make a step {ms(seconds)} shorter",
        evidence=(
            f"The ideal counts {count(case.setting.devices, 'device')}; workers use {case.setting.worker_devices}.",
        ),
        remedy="Try `ps:place=shared`, which puts servers on the workers' devices, or `--strategy allreduce`.",
    )


def between_phases(case: Comparison) -> Iterator[Cause]:
    """Yield the time outside all phases: bookkeeping and progress reports."""
    seconds = case.excess("other")
    if case.noticeable(seconds):
        yield Cause(
            name="other",
            headline="Short steps",
            seconds=seconds,
            sentence=f"a step loses {ms(seconds)} between its phases, to bookkeeping and progress reports",
            evidence=(f"A step takes only {ms(case.setting.step_seconds)}.",),
            remedy=f"Make steps longer: `--batch {2 * case.setting.batch}`.",
        )

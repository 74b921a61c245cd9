"""Who else uses the workers' cores: other workers, their own threads, servers, other processes, other machines."""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.breakdown.setting import FOREIGN_PERCENT, MeasuredSetting, mean
from paceline.numbers import ms


@dataclass(frozen=True)
class CoreUser:
    """Someone who uses the cores, and what to do about it."""

    reason: str
    """As in "because other processes use it"."""

    remedy: str
    seconds: float
    """How much of a device's time it has in a step."""


def main_user(setting: MeasuredSetting) -> CoreUser:
    """Who has the cores most while workers wait for them, and what to do about it."""
    user = max(_users(setting), key=lambda user: user.seconds)
    return (
        user
        if user.seconds > 0
        else CoreUser(
            "something else had it; who was not measured",
            "Look for other work on this machine (`top`), and run again.",
            0.0,
        )
    )


def _users(setting: MeasuredSetting) -> Iterator[CoreUser]:
    step, spec = setting.step_seconds, setting.spec
    foreign = max(setting.foreign_percent.values(), default=0.0)
    yield CoreUser(
        "other processes use it",
        "Stop other processes on this machine, or use fewer workers.",
        foreign / 100 * step if foreign >= FOREIGN_PERCENT else 0.0,
    )
    yield CoreUser(
        "other virtual machines on the same host use it (steal)",
        "Run again when they are less busy, or on cores that are not shared.",
        max(setting.stolen_percent.values(), default=0.0) / 100 * step,
    )
    if setting.serving_devices:
        yield CoreUser(
            "parameter servers share it",
            "Try `--strategy allreduce`, or `ps:place=own` where a core is free.",
            max(setting.served_percent.values(), default=0.0) / 100 * step,
        )
    loading = max(setting.loading_percent.values(), default=0.0)
    if loading:
        yield CoreUser(
            "the workers' loaders share it", "Use fewer loaders, or `--cores-per-device 2`.", loading / 100 * step
        )
    if spec.workers_per_device > 1:
        others = (spec.workers_per_device - 1) * (mean(worker.cpu_seconds for worker in setting.workers) or 0.0)
        yield CoreUser(f"{spec.workers_per_device} workers share each one", "Try `--workers-per-device 1`.", others)
    threads = own_threads(setting)
    if threads is not None:
        yield CoreUser(
            f"the workers' own threads use it for {ms(threads)}",
            "Try `--cores-per-device 2`: on a CPU overlapped communication needs a core, and this gives it one.",
            threads,
        )


def own_threads(setting: MeasuredSetting) -> float | None:
    """CPU seconds per step of a worker's other threads, such as those that communicate; None where not measured."""
    threads = [
        worker.cpu_seconds - worker.thread_cpu.own_total - worker.thread_cpu.exchange
        for worker in setting.workers
        if worker.cpu_seconds is not None and worker.thread_cpu is not None
    ]
    return max(0.0, sum(threads) / len(threads)) if threads else None

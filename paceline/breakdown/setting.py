"""One setting averaged over its repeats: the phases of its step, in total and for each worker."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.measure.runs import StoredRun
from paceline.numbers import count
from paceline.record import Record
from paceline.record_parts import DeviceRow, PhaseName, Phases, ThreadSeconds, WorkerRow
from paceline.spec import RunSpec
from paceline.traffic import catalogue
from paceline.traffic.resolved import ResolvedStrategy

FOREIGN_PERCENT = 10
"""Other processes that keep a device busier than this are worth mentioning."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One worker's step, averaged over the repeats; unmeasured values are None."""

    rank: int
    device: str
    phases: Phases

    cpu_seconds: float | None
    """CPU time of its process per step."""

    queued_seconds: float | None
    """Seconds of its compute per step in which it was ready to run but no core was free."""

    thread_cpu: ThreadSeconds | None
    """CPU time of the thread that trains, by phase."""

    thread_queued: ThreadSeconds | None
    """Seconds in which that thread was ready to run but no core was free, by phase."""

    utilisation_percent: float | None
    loader_utilisation_percent: float | None
    late_seconds: float | None
    """How much later than the others it arrives at the exchange; negative where it is earlier."""

    last_share: float | None
    """Share of the steps in which it arrives last."""

    @property
    def name(self) -> str:
        """The worker's name in messages, as in `worker 1 (cpu:1)`."""
        return f"worker {self.rank} ({self.device})"

    def queued_phases(self, workers_per_device: int) -> dict[PhaseName, float] | None:
        """By phase: seconds in which it waited for a core; None where that was not measured.

        Workers that share a device take turns on it, and the ideal counts that: the others' CPU time is no loss.
        """
        if self.thread_queued is None or self.thread_cpu is None:
            return None
        total = self.thread_queued.own_total
        lost = max(0.0, total - (workers_per_device - 1) * self.thread_cpu.own_total)
        return {name: seconds * lost / total if total else 0.0 for name, seconds in self.thread_queued.own}


@dataclass(frozen=True)
class MeasuredSetting:
    """Runs whose specs are equal except for the turn."""

    runs: tuple[StoredRun, ...]

    @property
    def spec(self) -> RunSpec:
        """The settings of all repeats; only their turns differ."""
        return self.runs[0].record.spec

    @property
    def batch(self) -> int:
        """Samples per worker and update."""
        return self.runs[0].record.batch

    @property
    def emulated(self) -> bool:
        """Whether devices were emulated; their compute takes no CPU time."""
        return self.runs[0].record.emulation is not None

    @cached_property
    def traffic(self) -> ResolvedStrategy:
        """The strategy with its options."""
        return catalogue.resolve(self.spec.strategy)

    @property
    def label(self) -> str:
        """A short name of the setting for headings and messages."""
        spec = self.spec
        shared = f", {spec.workers_per_device} per device" if spec.workers_per_device > 1 else ""
        apart = f" on {spec.nodes} nodes, {spec.network}" if spec.network else ""
        workers = count(spec.workers, "worker") + shared + apart
        slowed = f" · slow motion {spec.slow_motion:g}" if spec.slow_motion != 1 else ""
        return f"{spec.workload} · {spec.strategy} · {workers} · batch {self.batch}{slowed}"

    @cached_property
    def phases(self) -> Phases:
        """Mean phases over the repeats."""
        return Phases.mean([run.record.phases for run in self.runs])

    @property
    def step_seconds(self) -> float:
        """Mean seconds of a step: the sum of its phases."""
        return self.phases.total

    @cached_property
    def samples_per_step(self) -> float:
        """Samples of all workers: their rates × the mean step, which also holds where workers' steps differ."""
        return math.fsum(_samples_per_step(run.record) for run in self.runs) / len(self.runs)

    @property
    def devices(self) -> int:
        """Devices used, including those that only host servers."""
        return self.runs[0].record.devices

    @property
    def worker_devices(self) -> int:
        """Devices that workers compute on."""
        return len({worker.device for worker in self.workers})

    @property
    def serving_devices(self) -> frozenset[str]:
        """Devices that workers share with servers."""
        servers = {server.device for server in self.runs[0].record.servers}
        return frozenset(servers & {worker.device for worker in self.workers})

    @property
    def steps_timed(self) -> int:
        """Number of timed steps in all repeats."""
        return sum(run.record.steps_timed for run in self.runs)

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """Every worker, averaged over the repeats."""
        rows = zip(*(run.record.per_worker for run in self.runs), strict=True)
        return tuple(_worker(same_rank) for same_rank in rows)

    @property
    def hidden_seconds(self) -> float | None:
        """Seconds of communication per step that overlap with backward; None without buckets."""
        return mean(run.record.overlap.hidden if run.record.overlap else None for run in self.runs)

    @property
    def server_percent(self) -> float | None:
        """How busy servers keep their cores; None without servers, or where it was not measured."""
        return mean(row.utilisation_percent for run in self.runs for row in run.record.servers)

    @property
    def served_percent(self) -> dict[str, float]:
        """Per device: how busy servers kept its cores."""
        percents: dict[str, float] = {}
        for run in self.runs:
            for row in run.record.servers:
                share = (row.utilisation_percent or 0.0) / len(self.runs)
                percents[row.device] = percents.get(row.device, 0.0) + share
        return percents

    @property
    def foreign_percent(self) -> dict[str, float]:
        """Per device: how busy other processes of this machine, outside this run, kept its cores."""
        ours = (self.served_percent, self.stolen_percent, self.loading_percent)
        known = self.outside_percent.items()
        return {name: max(0.0, share - sum(part.get(name, 0.0) for part in ours)) for name, share in known}

    @property
    def loading_percent(self) -> dict[str, float]:
        """Per device: how busy the workers' loaders, which run on the same cores, kept them.

        A worker's children are its loaders and, on one worker of a node, the servers, which `served_percent` counts.
        """
        percents: dict[str, float] = {}
        for worker in () if self.traffic.servers else self.workers:
            percents[worker.device] = percents.get(worker.device, 0.0) + (worker.loader_utilisation_percent or 0.0)
        return percents

    @property
    def stolen_percent(self) -> dict[str, float]:
        """Per measured device: the share of its cores' time that other virtual machines had (steal)."""
        return self._by_device(lambda row: row.stolen_percent)

    @property
    def outside_percent(self) -> dict[str, float]:
        """Per measured device: how busy anything but this run's workers kept its cores."""
        return self._by_device(_outside)

    def _by_device(self, share: Callable[[DeviceRow], float | None]) -> dict[str, float]:
        """The mean over the repeats for every device where it was measured."""
        percents: dict[str, list[float]] = {}
        for run in self.runs:
            for row in run.record.utilisation:
                percent = share(row)
                if percent is not None:
                    percents.setdefault(row.device, []).append(percent)
        return {device: math.fsum(shares) / len(shares) for device, shares in percents.items()}


def _outside(row: DeviceRow) -> float | None:
    if row.busy_percent is None or row.workers_percent is None:
        return None
    return max(0.0, row.busy_percent - row.workers_percent)


def _samples_per_step(record: Record) -> float:
    return math.fsum(w.samples / w.seconds for w in record.per_worker) * record.step_seconds


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the measured values; None where there are none."""
    measured = [value for value in values if value is not None]
    return math.fsum(measured) / len(measured) if measured else None


def _mean_thread(rows: Sequence[ThreadSeconds | None]) -> ThreadSeconds | None:
    """The mean over the repeats; None unless all of them measured it."""
    known = [row for row in rows if row is not None]
    return ThreadSeconds.mean(known) if len(known) == len(rows) else None


def _worker(rows: Sequence[WorkerRow]) -> Worker:
    return Worker(
        rank=rows[0].rank,
        device=rows[0].device,
        phases=Phases.mean([row.phases for row in rows]),
        cpu_seconds=mean(row.cpu_seconds_per_step for row in rows),
        queued_seconds=mean(row.queued_seconds_per_step for row in rows),
        thread_cpu=_mean_thread([row.thread_cpu_seconds for row in rows]),
        thread_queued=_mean_thread([row.thread_queued_seconds for row in rows]),
        utilisation_percent=mean(row.utilisation_percent for row in rows),
        loader_utilisation_percent=mean(row.loader_utilisation_percent for row in rows),
        late_seconds=mean(row.late_seconds for row in rows),
        last_share=mean(row.last_share for row in rows),
    )

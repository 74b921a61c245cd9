"""What a record consists of: a frozen dataclass for each part. Not measured is None, never 0."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

PhaseName = Literal["input", "forward", "backward", "wait", "exchange", "update", "other"]


@dataclass(frozen=True, kw_only=True)
class Phases:
    """Seconds per step, mean over the timed steps, in the order they happen; they add up to the step."""

    input: float
    forward: float
    backward: float
    wait: float
    """Waiting for the last worker to arrive at the exchange, or to agree when to stop; without a barrier, blocked by a
    staleness bound."""

    exchange: float
    """Exposed communication: after the last worker's last gradient is ready."""

    update: float
    other: float

    @property
    def total(self) -> float:
        """Seconds of a step."""
        return math.fsum(seconds for _, seconds in self)

    @classmethod
    def mean(cls, several: "Sequence[Phases]") -> "Phases":
        """The mean of several steps' phases."""
        return cls(**{name: math.fsum(phases.of(name) for phases in several) / len(several) for name in PHASES})

    def of(self, name: PhaseName) -> float:
        """Seconds of the phase called `name`."""
        seconds: float = getattr(self, name)
        return seconds

    def __iter__(self) -> Iterator[tuple[PhaseName, float]]:
        return ((name, self.of(name)) for name in PHASES)


PHASES: tuple[PhaseName, ...] = tuple(f.name for f in dataclasses.fields(Phases))  # type: ignore[misc]
"""The phases of a step, in the order they happen."""


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Units per second of all workers: the median of window rates, with its 95 % interval where one is known."""

    value: float
    low: float | None
    high: float | None
    unit: str
    """Such as `images/s`."""


@dataclass(frozen=True, kw_only=True)
class StepPercentiles:
    """Seconds of a timed step: half, 90 % and 99 % of the steps of all workers took at most as long."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where the training data came from."""

    source: str
    generated: bool


@dataclass(frozen=True, kw_only=True)
class WorkloadFacts:
    """The model and the data that were trained."""

    name: str
    parameters: int
    tensors: int
    gradient_bytes: int
    unit: str
    """What throughput counts, in the plural."""

    data: DataSource
    not_trained: tuple[str, ...]
    """Parameters that the loss does not depend on."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine and the versions that the run used."""

    host: str
    system: str
    processor: str
    cores: int | None
    device_kind: str
    backend: str
    versions: Mapping[str, str]
    threads_per_worker: int
    affinity: tuple[tuple[int, ...], ...]
    """The cores of each worker."""

    git: str | None
    """The commit of the folder that the run was started in."""

    @property
    def place(self) -> dict[str, str | int | None]:
        """What two records must share to be compared: the machine and the versions, by name."""
        machine: dict[str, str | int | None] = {
            "host": self.host,
            "system": self.system,
            "processor": self.processor,
            "cores": self.cores,
            "device kind": self.device_kind,
        }
        return machine | {f"{name} version": version for name, version in self.versions.items()}


@dataclass(frozen=True, kw_only=True)
class WallSeconds:
    """How the wall time of the whole run divides."""

    start_up: float
    training: float
    validation: float
    checkpoints: float

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return self.start_up + self.training + self.validation + self.checkpoints


@dataclass(frozen=True, kw_only=True)
class ThreadSeconds:
    """Seconds per step of the thread that trains, by phase; `exchange` includes waiting for other workers."""

    input: float
    forward: float
    backward: float
    exchange: float
    update: float

    @property
    def own(self) -> Iterator[tuple[PhaseName, float]]:
        """The phases in which a worker works itself: all but the exchange."""
        yield from (("input", self.input), ("forward", self.forward))
        yield from (("backward", self.backward), ("update", self.update))

    @property
    def own_total(self) -> float:
        """Seconds of a worker's own phases."""
        return math.fsum(seconds for _, seconds in self.own)

    @classmethod
    def mean(cls, several: "Sequence[ThreadSeconds]") -> "ThreadSeconds":
        """The mean of several workers or repeats."""
        names = (f.name for f in dataclasses.fields(cls))
        return cls(**{name: math.fsum(getattr(one, name) for one in several) / len(several) for name in names})


@dataclass(frozen=True, kw_only=True)
class WorkerRow:
    """One worker, over its timed steps."""

    rank: int
    node: int
    device: str
    cores: tuple[int, ...]
    steps: int
    samples: int
    seconds: float
    step_seconds: float
    phases: Phases
    last_share: float | None
    """Share of steps in which it arrived last at the exchange; None without a barrier."""

    late_seconds: float | None
    """How much later than the earliest worker it arrived, on average."""

    cpu_seconds_per_step: float | None
    queued_seconds_per_step: float | None
    """Seconds in which it was ready to run but waited for its core, from the begin of a step to its arrival."""

    utilisation_percent: float | None
    loader_utilisation_percent: float | None
    peak_memory_bytes: int | None
    """The largest resident set of its process."""

    peak_device_memory_bytes: int | None
    """The most memory that it allocated on its GPU; None on a CPU."""

    thread_cpu_seconds: ThreadSeconds | None = None
    """CPU time of the thread that trains; null in records that do not have it."""

    thread_queued_seconds: ThreadSeconds | None = None
    """Seconds in which that thread was ready to run but waited for its core; null in records that do not have it."""


@dataclass(frozen=True, kw_only=True)
class ServerRow:
    """One parameter server."""

    server: int
    node: int
    device: str
    cores: tuple[int, ...]
    place: Literal["shared", "own"] | None
    utilisation_percent: float | None


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """How busy one device was while its workers trained, in percent."""

    device: str
    cores: tuple[int, ...]
    busy_percent: float | None
    """Used by any process of the machine."""

    stolen_percent: float | None
    """Used by other virtual machines on the same host (steal)."""

    workers_percent: float | None
    """Used by this run's workers."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Seconds per step in which an exchange was in progress."""

    busy: float
    hidden: float
    """Communication that overlapped with backward."""

    exposed: float
    """After backward: waiting for the last worker, and exposed communication."""


@dataclass(frozen=True, kw_only=True)
class BucketTimes:
    """One bucket: medians, in seconds since backward began."""

    bucket: int
    bytes: int
    ready_seconds: float
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, kw_only=True)
class GradientTime:
    """One gradient: its size, and when it was ready after backward began."""

    name: str
    bytes: int
    ready_seconds: float
    shape: tuple[int, ...] | None = None
    """Shape of the tensor; null in records that do not have it."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One pass over the validation set."""

    epoch: float | None
    step: int
    samples: int
    loss: float | None
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Losses, and how much training led to them."""

    loss: tuple[float | None, ...]
    """Loss of every step, over all workers."""

    validation: tuple[Validation, ...]
    val_loss: float | None
    updates: int
    samples_seen: int
    global_batch: int
    lr: float
    lr_rule: str
    lr_warmup_steps: int
    reduction: Literal["mean", "sum"]


@dataclass(frozen=True, kw_only=True)
class StrategyFigures:
    """Figures that only a strategy knows, as one worker reports them."""

    figures: Mapping[str, float | None] = field(default_factory=dict)
    server_utilisation_percent: tuple[float | None, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TrafficCount:
    """Payload bytes by pattern: what the strategy claims, and what the group counted."""

    claimed: Mapping[str, int]
    counted: Mapping[str, int]
    per_step: Mapping[str, float]
    per_settle: Mapping[str, int]
    sent_bytes_per_worker_and_step: float


@dataclass(frozen=True, kw_only=True)
class LinkUse:
    """What a link carried during the run, start-up included, by the kernel's count."""

    sent_bytes: int
    received_bytes: int
    dropped_packets: int
    """Packets that found the shaper's queue full, in both directions."""


@dataclass(frozen=True, kw_only=True)
class LinkAfter:
    """A link as measured after the run; 0 where nothing arrived."""

    sent_bits_per_second: float
    received_bits_per_second: float
    latency_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class MeasuredLink:
    """One node's link, as requested and as measured before the run, and what became of it."""

    node: int
    asked_bits_per_second: float
    sent_bits_per_second: float
    received_bits_per_second: float
    latency_seconds: float
    use: LinkUse | None = None
    """Null in records that do not have it."""

    after: LinkAfter | None = None
    """Null in records that do not have it."""


@dataclass(frozen=True, kw_only=True)
class MeasuredNetwork:
    """The links between nodes."""

    asked: str
    nodes: tuple[MeasuredLink, ...]


@dataclass(frozen=True, kw_only=True)
class EmulatedDevice:
    """The device that one node's workers emulated."""

    node: int
    device: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """How well the host kept up with the devices it emulated."""

    devices: tuple[EmulatedDevice, ...]
    slow_motion: float
    device_seconds_per_step: float
    overrun_percent: float
    """How much longer a step took because the host was late."""

    host_busy_percent: float | None
    host_stolen_percent: float | None
    exchange_busy_percent: float | None
    host_limits: tuple[str, ...]
    """Why the host limited the figures instead of the emulated devices; empty where it did not."""

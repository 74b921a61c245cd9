"""What one worker reports when it has finished: plain types, sent as JSON to the process that supervises it."""

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.record_parts import StrategyFigures, TrafficCount, Validation, WallSeconds, WorkloadFacts


@dataclass(frozen=True, kw_only=True)
class CoreUse:
    """Shares of the cores' time while training, in percent; None where the machine does not report them."""

    busy_percent: float | None = None
    """Used by any process of the machine."""

    loader_percent: float | None = None
    """Used by the processes this worker started, its loaders; None without any."""

    stolen_percent: float | None = None
    """Used by other virtual machines on the same host (steal). Only a virtual machine reports it."""


@dataclass(frozen=True, kw_only=True)
class TensorSize:
    """A trained tensor."""

    name: str
    bytes: int
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class EmulatedUse:
    """What a worker on an emulated device did."""

    device_seconds_per_step: float
    """As planned, in slow-motion time of the host."""

    exchange_busy_percent: float | None
    """How busy its cores were during the exchange."""


@dataclass(frozen=True, kw_only=True)
class WorkerReport:
    """Everything that the record needs from one worker, except its series."""

    device: str
    cores: tuple[int, ...]
    threads: int
    use: CoreUse
    wall_seconds: WallSeconds
    stopped_early: bool
    peak_memory_bytes: int
    peak_device_memory_bytes: int | None
    workload: WorkloadFacts
    gradients: tuple[TensorSize, ...]
    validation: tuple[Validation, ...]
    updates: int
    samples_seen: int
    lr: float
    lr_warmup_steps: int
    traffic: TrafficCount
    strategy: StrategyFigures
    versions: Mapping[str, str]
    emulated: EmulatedUse | None

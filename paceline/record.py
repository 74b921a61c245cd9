"""What happened: one immutable, versioned record per run, as nested types; its schema is generated from them."""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.errors import DataError, OutputError, SpecError
from paceline.files import write_whole
from paceline.migrations import SCHEMA_VERSION, migrated_record
from paceline.numbers import rate
from paceline.record_parts import (
    BucketTimes,
    DeviceRow,
    Emulation,
    Environment,
    GradientTime,
    Learning,
    MeasuredNetwork,
    Overlap,
    Phases,
    ServerRow,
    StepPercentiles,
    Throughput,
    TrafficCount,
    WallSeconds,
    WorkerRow,
    WorkloadFacts,
)
from paceline.spec import RunSpec

FILE_NAME = "record.json"
SIDECAR_NAME = "series.npz"
STUDY_NAME = "study.json"
FAILURE_NAME = "failure.json"

_ADDS_UP = 0.01
"""Relative difference up to which phases add up to the step they divide."""

_CONTRADICTS = 2.0
"""How many times a rate may differ from samples ÷ seconds before reading the record reports a contradiction."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run, as measured. Not measured is None, never 0."""

    schema_version: int = SCHEMA_VERSION
    spec: RunSpec
    """The settings that ran, with open ones resolved."""

    workload: WorkloadFacts
    environment: Environment
    devices: int
    """Devices used, including those of servers."""

    samples_timed: int
    units_timed: int | None
    """How many of the units that throughput counts, in the timed steps of all workers."""

    steps_timed: int
    seconds_timed: float
    warmup_steps: int
    wall_seconds: WallSeconds
    throughput: Throughput
    per_worker: tuple[WorkerRow, ...]
    servers: tuple[ServerRow, ...]
    utilisation: tuple[DeviceRow, ...]
    phases: Phases
    """Mean over the workers."""

    overlap: Overlap | None
    """None where nothing was exchanged, or no step was sampled."""

    buckets: tuple[BucketTimes, ...]
    gradients: tuple[GradientTime, ...]
    """In order of registration."""

    learning: Learning
    traffic: TrafficCount
    strategy_report: Mapping[str, float | None]
    """Figures that only the strategy reports, such as mean staleness."""

    step_percentiles: StepPercentiles | None = None
    """None in records of versions that did not measure them."""

    network: MeasuredNetwork | None = None
    """None on one node."""

    emulation: Emulation | None = None
    """None where devices were not emulated."""

    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for contradiction in _contradictions(self):
            raise ValueError(contradiction)

    @property
    def batch(self) -> int:
        """Samples per worker and update."""
        assert self.spec.batch is not None, "a record without it is refused"
        return self.spec.batch

    @property
    def step_seconds(self) -> float:
        """Mean seconds of a timed step."""
        return self.phases.total

    @property
    def mean_rate(self) -> float | None:
        """Units ÷ seconds over all timed steps, the sum of the workers; None where units were not counted."""
        if not self.units_timed or not self.samples_timed:
            return None
        per_sample = self.units_timed / self.samples_timed
        return per_sample * math.fsum(row.samples / row.seconds for row in self.per_worker)

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=2, allow_nan=False)

    def save(self, folder: Path) -> Path:
        """Write into `folder`, completely or not at all; an existing record is never overwritten."""
        path = folder / FILE_NAME
        try:
            write_whole(path, self.to_json(), overwrite=False)
        except FileExistsError:
            raise OutputError(f"{path} exists: choose another --out; records are never overwritten.") from None
        return path

    @classmethod
    def load(cls, path: Path) -> "Record":
        """From a record's file or its folder; older schemas are migrated, and doubts are added to the warnings."""
        file = path / FILE_NAME if path.is_dir() else path
        try:
            content = json.loads(file.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{file} is not a readable record: {error}.") from error
        version = content.get("schema_version") if isinstance(content, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise DataError(f"{file} is not a record: it has no schema_version.")
        if version > SCHEMA_VERSION:
            raise DataError(
                f"{file} has schema version {version}; this Paceline reads up to {SCHEMA_VERSION}: update it."
            )
        try:
            record = msgspec.convert(migrated_record(content, version), cls)
        except (msgspec.ValidationError, SpecError, TypeError, KeyError, AttributeError, ValueError) as error:
            raise DataError(f"{file} is not a complete record: {_reason(error)}.") from error
        return dataclasses.replace(record, warnings=(*record.warnings, *_doubts(record)))


def _reason(error: Exception) -> str:
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return text.rstrip(".")


def _contradictions(record: Record) -> Iterator[str]:
    """Contradictions that no run can cause: the file was edited or damaged, or Paceline has a bug."""
    rows = record.per_worker
    if record.spec.batch is None:
        yield "its spec has no batch"
    if len(rows) != record.spec.workers:
        yield f"it has rows for {len(rows)} workers, but its spec has {record.spec.workers}"
    if [row.rank for row in rows] != list(range(len(rows))):
        yield "its workers are not in order of rank"
    samples = sum(row.samples for row in rows)
    if samples != record.samples_timed:
        yield f"its workers count {samples} samples, but samples_timed is {record.samples_timed}"
    for row in rows:
        if abs(row.phases.total - row.step_seconds) > _ADDS_UP * row.step_seconds:
            yield (
                f"the phases of worker {row.rank} add up to {row.phases.total:g} s, but its step takes "
                f"{row.step_seconds:g} s"
            )
        if row.seconds <= 0 or row.step_seconds <= 0:
            yield f"worker {row.rank} took no time"
    for name, seconds in record.phases:
        mean = sum(row.phases.of(name) for row in rows) / len(rows)
        if abs(seconds - mean) > _ADDS_UP * record.step_seconds:
            yield f"{name} takes {seconds:g} s per step, but {mean:g} s on average over its workers"
    speed = record.throughput
    if speed.value <= 0:
        yield f"its throughput is {speed.value:g}"
    if speed.low is not None and speed.high is not None and not speed.low <= speed.value <= speed.high:
        yield f"its throughput {rate(speed.value)} is outside its interval {rate(speed.low)} to {rate(speed.high)}"


def _doubts(record: Record) -> Iterator[str]:
    """Implausible figures, which a run can cause but rarely does."""
    mean = record.mean_rate
    if mean and not 1 / _CONTRADICTS <= record.throughput.value / mean <= _CONTRADICTS:
        yield (
            f"The throughput of {rate(record.throughput.value)} {record.throughput.unit} contradicts samples ÷ seconds "
            f"({rate(mean)}): the pace changed within the run, or the file was edited."
        )

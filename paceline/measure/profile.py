"""A device's profile of one workload: how long its parts take, and when each gradient is ready."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from paceline.errors import DataError, OutputError
from paceline.files import write_whole
from paceline.measure.series import WorkerSeries
from paceline.numbers import count
from paceline.record import Record
from paceline.record_parts import GradientTime, Throughput

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ProfiledWorkload:
    """The model that was profiled."""

    name: str
    parameters: int
    tensors: int
    gradient_bytes: int
    unit: str


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One worker alone on one device. Seconds are means per step, as in the record it comes from."""

    schema_version: int = SCHEMA_VERSION
    workload: ProfiledWorkload

    spec: str
    """The workload as written on the command line."""

    device: str
    """A description of the device."""

    precision: str
    batch: int
    units_per_step: float
    throughput: Throughput
    input_seconds: float
    forward_seconds: float
    backward_seconds: float
    update_seconds: float
    other_seconds: float
    compute_spread: float
    """How much steps vary: half the range of the middle 68 % of forward + backward, divided by the median."""

    gradients: tuple[GradientTime, ...]
    """In order of registration."""

    versions: Mapping[str, str]

    @classmethod
    def of(cls, record: Record, worker: WorkerSeries) -> "Profile":
        """Make a profile from a run of one worker without communication."""
        if not record.spec.is_alone:
            raise DataError("A profile needs one worker alone: run with --workers 1 --strategy independent.")
        if not record.gradients:
            raise DataError(f"Too few steps ({record.steps_timed}) to sample when gradients are ready: profile longer.")
        timed = slice(record.warmup_steps, record.warmup_steps + record.steps_timed)
        compute = worker.forward[timed] + worker.backward[timed]
        low, middle, high = np.quantile(compute, [0.16, 0.5, 0.84])
        environment = record.environment
        cores = len(record.per_worker[0].cores) or environment.threads_per_worker
        return cls(
            workload=ProfiledWorkload(
                name=record.workload.name,
                parameters=record.workload.parameters,
                tensors=record.workload.tensors,
                gradient_bytes=record.workload.gradient_bytes,
                unit=record.workload.unit,
            ),
            spec=record.spec.workload,
            device=f"{environment.processor}, {count(cores, 'core')}"
            if environment.device_kind == "cpu"
            else record.per_worker[0].device,
            precision=record.spec.precision,
            batch=record.batch,
            units_per_step=float(worker.units[timed].mean()),
            throughput=record.throughput,
            compute_spread=float((high - low) / 2 / middle),
            gradients=record.gradients,
            versions=environment.versions,
            input_seconds=record.phases.input,
            forward_seconds=record.phases.forward,
            backward_seconds=record.phases.backward,
            update_seconds=record.phases.update,
            other_seconds=record.phases.other,
        )

    def save(self, path: Path) -> None:
        """Write the profile atomically; never overwrite an existing file."""
        content = json.dumps(dataclasses.asdict(self), indent=2, allow_nan=False)
        if path.exists():
            raise OutputError(f"{path} exists: choose another --out; profiles are never overwritten.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content, overwrite=False)
        except OSError as error:
            raise OutputError(f"--out {path} cannot be written ({error.strerror}): choose another file.") from error

    @classmethod
    def load(cls, path: Path) -> "Profile":
        """Read a profile that `save` wrote."""
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is not a readable profile: {error}.") from error
        version = content.get("schema_version") if isinstance(content, dict) else None
        if not isinstance(version, int) or "compute_spread" not in content:
            raise DataError(f"{path} is not a profile: make one with `paceline profile WORKLOAD`.")
        if version > SCHEMA_VERSION:
            raise DataError(
                f"{path} has schema version {version}; this Paceline reads up to {SCHEMA_VERSION}: update it."
            )
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise DataError(f"{path} is not a complete profile: {error}.") from error

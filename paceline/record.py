"""What happened: one immutable record per run, versioned, with its environment."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.errors import DataError, OutputError
from paceline.files import write_whole

SCHEMA_VERSION = 1
FILE_NAME = "record.json"
SIDECAR_NAME = "series.npz"
STUDY_NAME = "study.json"
FAILURE_NAME = "failure.json"
PHASES = ("input", "forward", "backward", "wait", "exchange", "update", "other")
"""Of a step, in the order they happen."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run, as measured. Not measured is None, never 0."""

    schema_version: int = SCHEMA_VERSION
    spec: dict[str, Any]
    """As resolved: what ran, not what was typed."""

    workload: dict[str, Any]
    environment: dict[str, Any]
    devices: int
    """Devices used, servers' own ones included."""

    samples_timed: int
    steps_timed: int
    seconds_timed: float
    warmup_steps: int
    wall_seconds: dict[str, float]
    throughput: dict[str, Any]
    per_worker: list[dict[str, Any]]
    servers: list[dict[str, Any]]
    utilisation: list[dict[str, Any]]
    """Per device: how busy it was in all, and by this run's workers."""

    phases: dict[str, float]
    """Seconds per step, mean over workers and timed steps; they add up to the step."""

    overlap: dict[str, float] | None
    """Seconds per step in which an exchange was under way: hidden behind backward, exposed after it, and in all."""

    buckets: list[dict[str, Any]]
    """Medians, in seconds since backward began: when each was ready, and when its exchange started and ended."""

    gradients: list[dict[str, Any]]
    """Of each tensor, in order of registration: bytes, and when it was ready after backward began."""

    learning: dict[str, Any]
    traffic: dict[str, Any]
    strategy_report: dict[str, Any]
    network: dict[str, Any] | None = None
    """The links between nodes, as asked for and as measured before the run; None on one node."""

    emulation: dict[str, Any] | None = None
    """Devices that were emulated, how many times slower all was, and whether the host kept up; None: they computed."""

    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        counted = sum(worker["samples"] for worker in self.per_worker)
        assert counted == self.samples_timed, f"{counted} samples of the workers, {self.samples_timed} timed"
        for worker in self.per_worker:
            phases, step = sum(worker["phases"].values()), worker["step_seconds"]
            assert abs(phases - step) <= 0.01 * step, (
                f"phases of worker {worker['rank']}: {phases} s of {step} s a step"
            )

    @property
    def step_seconds(self) -> float:
        """Mean seconds of a timed step."""
        return sum(self.phases.values())

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=2, allow_nan=False)

    def save(self, folder: Path) -> Path:
        """Write into `folder`, whole or not at all; an existing record is never overwritten."""
        path = folder / FILE_NAME
        try:
            write_whole(path, self.to_json(), overwrite=False)
        except FileExistsError:
            raise OutputError(f"{path} exists: choose another --out; records are never overwritten.") from None
        return path

    @classmethod
    def load(cls, path: Path) -> "Record":
        """From a record's file or its folder."""
        file = path / FILE_NAME if path.is_dir() else path
        try:
            content = json.loads(file.read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{file} is not a readable record: {error}.") from error
        version = content.get("schema_version") if isinstance(content, dict) else None
        if not isinstance(version, int):
            raise DataError(f"{file} is not a record: it has no schema_version.")
        if version > SCHEMA_VERSION:
            raise DataError(
                f"{file} has schema version {version}; this Paceline reads up to {SCHEMA_VERSION}: update it."
            )
        try:
            _check(content)
            return cls(**content)
        except (TypeError, KeyError, AttributeError, AssertionError) as error:
            raise DataError(f"{file} is not a whole record: {error}.") from error


_NEEDED: dict[str, tuple[str, ...]] = {
    "spec": ("workload", "workers", "workers_per_device", "strategy", "feed", "batch", "timing", "precision", "turn"),
    "workload": ("name", "unit", "gradient_bytes"),
    "environment": ("host", "device_kind", "versions"),
    "throughput": ("value", "low", "high", "unit"),
    "wall_seconds": ("start_up", "training"),
    "learning": ("loss", "validation", "val_loss", "updates", "samples_seen", "global_batch", "lr", "lr_rule"),
    "traffic": ("sent_bytes_per_worker_and_step",),
    "phases": PHASES,
}
_NEEDED_OF_A_WORKER = ("rank", "device", "samples", "seconds", "step_seconds", "phases")


def _check(content: dict[str, Any]) -> None:
    """A file may have been edited or cut and still be JSON: what every reader relies on is there and is a number."""
    for name, keys in _NEEDED.items():
        assert isinstance(content[name], dict), f"{name} is no object"
        missing = [key for key in keys if key not in content[name]]
        assert not missing, f"{name} lacks {', '.join(missing)}"
    assert content["per_worker"], "it has no worker"
    for worker in content["per_worker"]:
        assert isinstance(worker["phases"], dict), "phases are no object"
        missing = [key for key in _NEEDED_OF_A_WORKER if key not in worker]
        assert not missing, f"a worker lacks {', '.join(missing)}"
    assert type(content["steps_timed"]) is int, "steps_timed is no whole number"
    assert type(content["warmup_steps"]) is int, "warmup_steps is no whole number"
    rate, seconds = content["throughput"]["value"], [worker["seconds"] for worker in content["per_worker"]]
    assert all(isinstance(value, int | float) for value in (rate, *seconds)), "a rate or a time is no number"
    assert min(rate, *seconds) > 0, "a rate or a time is not above 0"
    assert sum(content["phases"].values()) > 0, "a step takes no time"

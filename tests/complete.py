"""Records for tests: a test gives what it is about, and the rest is filled in so that the record is complete."""

from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.record import Record
from paceline.record_parts import PHASES
from paceline.spec import SETTINGS

_SPEC: dict[str, Any] = {"workload": "vae", "batch": 8, "lr": 0.1, "optimizer": "own", "validate": "off"}
_WORKLOAD: dict[str, Any] = {
    "name": "vae",
    "parameters": 10,
    "tensors": 1,
    "gradient_bytes": 40,
    "unit": "images",
    "data": {"source": "generated digits", "generated": True},
    "not_trained": [],
}
_ENVIRONMENT: dict[str, Any] = {
    "host": "here",
    "system": "Linux",
    "processor": "any",
    "cores": 8,
    "device_kind": "cpu",
    "backend": "gloo",
    "versions": {},
    "threads_per_worker": 1,
    "affinity": [],
    "git": None,
}
_WORKER: dict[str, Any] = {
    "node": 0,
    "device": "cpu:0",
    "cores": [0],
    "steps": 1,
    "last_share": None,
    "late_seconds": None,
    "cpu_seconds_per_step": None,
    "queued_seconds_per_step": None,
    "utilisation_percent": None,
    "loader_utilisation_percent": None,
    "peak_memory_bytes": None,
    "peak_device_memory_bytes": None,
}
_LEARNING: dict[str, Any] = {
    "loss": [1.0],
    "validation": [],
    "val_loss": None,
    "updates": 1,
    "samples_seen": 8,
    "global_batch": 8,
    "lr": 0.1,
    "lr_rule": "none",
    "lr_warmup_steps": 0,
    "reduction": "mean",
}
_TRAFFIC: dict[str, Any] = {
    "claimed": {},
    "counted": {},
    "per_step": {},
    "per_settle": {},
    "sent_bytes_per_worker_and_step": 0.0,
}
_EMULATION: dict[str, Any] = {
    "devices": [],
    "slow_motion": 1.0,
    "device_seconds_per_step": 0.1,
    "overrun_percent": 0.0,
    "host_busy_percent": None,
    "host_stolen_percent": None,
    "exchange_busy_percent": None,
    "host_limits": [],
}
_SERVER: dict[str, Any] = {"server": 0, "node": 0, "device": "cpu:0", "cores": [0], "place": "shared"}
_DEVICE: dict[str, Any] = {"device": "cpu:0", "cores": [0], "busy_percent": None, "stolen_percent": None}
_CHECK: dict[str, Any] = {"epoch": None, "step": 1, "samples": 8, "loss": None, "metrics": {}}


def complete(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a record's file, with what it leaves open filled in."""
    built: dict[str, Any] = msgspec.to_builtins(dict(content))
    spec = {**_SPEC, **built.get("spec", {})}
    if all(spec.get(name) is None for name in ("steps", "epochs", "seconds")) and spec.get("timing") is None:
        spec["steps"] = 10
    learning = {**_LEARNING, **built.get("learning", {})}
    learning["validation"] = [{**_CHECK, **check} for check in learning["validation"]]
    workers = [{**_WORKER, **row} for row in built.get("per_worker") or _alone(spec)]
    seconds = max(row["seconds"] for row in workers)
    samples = sum(row["samples"] for row in workers)
    return {
        "devices": 1,
        "samples_timed": samples,
        "units_timed": None,
        "steps_timed": 1,
        "seconds_timed": seconds,
        "warmup_steps": 0,
        "overlap": None,
        "buckets": [],
        "gradients": [],
        "strategy_report": {},
        "network": None,
        "failures": [],
        "warnings": [],
        "phases": {name: sum(row["phases"][name] for row in workers) / len(workers) for name in PHASES},
        **built,
        "spec": {**{n: s.default for n, s in SETTINGS.items() if n != "workload"}, **spec},
        "workload": {**_WORKLOAD, **built.get("workload", {})},
        "environment": {**_ENVIRONMENT, **built.get("environment", {})},
        "wall_seconds": {
            "start_up": 1.0,
            "training": 2.0,
            "validation": 0.0,
            "checkpoints": 0.0,
            **built.get("wall_seconds", {}),
        },
        "throughput": {"value": 1.0, "low": None, "high": None, "unit": "images/s", **built.get("throughput", {})},
        "per_worker": workers,
        "servers": [{"utilisation_percent": None, **_SERVER, **row} for row in built.get("servers", [])],
        "utilisation": [{"workers_percent": None, **_DEVICE, **row} for row in built.get("utilisation", [])],
        "learning": learning,
        "traffic": {**_TRAFFIC, **built.get("traffic", {})},
        "emulation": None if built.get("emulation") is None else {**_EMULATION, **built["emulation"]},
    }


def _alone(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Workers that took a second for one step of a batch."""
    phases = {**dict.fromkeys(PHASES, 0.0), "forward": 1.0}
    one = {"samples": spec["batch"], "seconds": 1.0, "step_seconds": 1.0, "phases": phases}
    return [{"rank": rank, **one} for rank in range(spec.get("workers", 1))]


def record_of(content: Mapping[str, Any]) -> Record:
    """A complete record with this content."""
    return msgspec.convert(complete(content), Record)

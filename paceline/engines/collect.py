"""From the workers' reports to a record and its sidecar, written into the run's folder."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paceline import __version__
from paceline.engines.plan import Plan
from paceline.measure.summary import Summary, mean_losses, summarise
from paceline.measure.wallclock import WorkerSeries
from paceline.record import SIDECAR_NAME, Record
from paceline.traffic.ps import ParameterServer
from paceline.workers.assignment import series_of


def collect(plan: Plan, reports: Sequence[dict[str, Any]], scratch: Path, out: Path, *, wall_seconds: float) -> Record:
    """The record of a finished run, saved."""
    series: list[WorkerSeries] = []
    for rank in range(len(reports)):
        with np.load(series_of(scratch, rank)) as arrays:
            series.append({name: arrays[name] for name in arrays.files})
    summary = summarise(series, synchronous=plan.traffic.synchronous)
    first = reports[0]
    walls = {name: max(r["wall_seconds"][name] for r in reports) for name in first["wall_seconds"]}
    walls["start_up"] = max(0.0, wall_seconds - sum(v for k, v in walls.items() if k != "start_up"))
    record = Record(
        spec=first["spec"],
        workload=first["workload"],
        environment=environment(plan, first["versions"]),
        devices=plan.placement.devices,
        samples_timed=summary.samples_timed,
        steps_timed=summary.steps_timed,
        seconds_timed=summary.seconds_timed,
        warmup_steps=summary.warmup_steps,
        wall_seconds=walls,
        throughput={**summary.throughput, "unit": f"{first['workload']['unit']}/s"},
        per_worker=_per_worker(summary, reports),
        servers=_servers(plan),
        phases=_phases(plan, summary.phases),
        learning=_learning(plan, reports, series),
        traffic=first["traffic"],
        strategy_report=first["strategy_report"],
        failures=["Stopped by the user before the end."] if any(r["stopped_early"] for r in reports) else [],
        warnings=[*summary.warnings, *_warnings(first)],
    )
    out.mkdir(parents=True, exist_ok=True)
    named = {f"worker{rank}_{name}": values for rank, worker in enumerate(series) for name, values in worker.items()}
    np.savez_compressed(out / SIDECAR_NAME, **named)  # type: ignore[arg-type]
    record.save(out)
    return record


def _per_worker(summary: Summary, reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per worker: who it was and what it did in the timed steps."""
    rows = []
    for rank, report in enumerate(reports):
        rows.append(
            {
                "rank": rank,
                "node": 0,
                "device": report["device"],
                "cores": report["cores"],
                "samples": summary.worker_samples[rank],
                "seconds": summary.worker_seconds[rank],
                "utilisation_percent": report["utilisation_percent"],
                "peak_memory_bytes": report["peak_memory_bytes"],
            }
        )
    return rows


def _phases(plan: Plan, phases: dict[str, float]) -> dict[str, float | None]:
    """Within a staleness bound waiting is part of the exchange and not told apart: not measured is null."""
    bounded = isinstance(plan.traffic, ParameterServer) and plan.traffic.mode == "stale"
    return {**phases, "wait": None} if bounded else {**phases}


def _learning(plan: Plan, reports: Sequence[dict[str, Any]], series: Sequence[WorkerSeries]) -> dict[str, Any]:
    """Beside every loss: samples seen, updates made, global batch, learning rate and its rule, sum or mean.

    Where workers do not wait for one another, every one of them updates the servers with a batch of its own.
    """
    first = reports[0]
    spec = first["spec"]
    together = plan.traffic.synchronous
    updates = sum(r["updates"] for r in reports) if plan.traffic.servers and not together else first["updates"]
    validation = first["validation"]
    return {
        "loss": mean_losses(series),
        "validation": validation,
        "val_loss": validation[-1]["loss"] if validation else None,
        "updates": updates,
        "samples_seen": sum(r["samples_seen"] for r in reports),
        "global_batch": spec["batch"] * (spec["workers"] if together else 1),
        "lr": first["lr"],
        "lr_rule": spec["lr_rule"],
        "lr_warmup_steps": first["lr_warmup_steps"],
        "reduction": getattr(plan.traffic, "reduce", "mean"),
    }


def _servers(plan: Plan) -> list[dict[str, Any]]:
    place = plan.placement.server_place
    return [
        {"server": i, "device": slot.device, "cores": list(slot.cores), "place": place}
        for i, slot in enumerate(plan.placement.servers)
    ]


def _warnings(first: dict[str, Any]) -> list[str]:
    warnings = []
    if first["updates"] < first["lr_warmup_steps"]:
        warnings.append(
            f"The learning rate was still warming up at the end, after {first['updates']} of "
            f"{first['lr_warmup_steps']} updates: train longer, or lower --lr-warmup."
        )
    names = first["workload"]["not_trained"]
    if names:
        warnings.append(f"The loss does not depend on {', '.join(names)}: not trained.")
    traffic = first["traffic"]
    if traffic["claimed"] != traffic["counted"]:
        warnings.append(
            f"The strategy claims to move {traffic['claimed']} bytes, but {traffic['counted']} was counted."
        )
    return warnings


def environment(plan: Plan, versions: dict[str, str]) -> dict[str, Any]:
    """Where the run was: what two records must share to be compared."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device_kind": plan.placement.kind,
        "backend": plan.placement.backend,
        "versions": {"paceline": __version__, **versions},
        "threads_per_worker": plan.placement.workers[0].threads,
        "affinity": [list(slot.cores) for slot in plan.placement.workers],
        "git": _git_commit(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _git_commit() -> str | None:
    """The commit of the folder that the run was started in, if it is in a repository."""
    git = shutil.which("git")
    if git is None:
        return None
    answer = subprocess.run([git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
    return answer.stdout.strip() or None

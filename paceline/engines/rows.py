"""The rows of a record: one per worker, per device and per server."""

import math
from collections.abc import Sequence
from typing import Any

from paceline.engines.plan import Plan
from paceline.measure.phases import lateness_of, phases_of
from paceline.measure.summary import Summary
from paceline.measure.wallclock import WorkerSeries


def worker_rows(
    plan: Plan, summary: Summary, series: Sequence[WorkerSeries], reports: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row per worker: who it was and what it did in the timed steps."""
    together = plan.traffic.synchronous
    phases = phases_of(series, summary.timed, synchronous=together)
    lateness = lateness_of(series, summary.timed) if together and len(series) > 1 else None
    rows = []
    for rank, (report, worker, part) in enumerate(zip(reports, series, summary.timed, strict=True)):
        seconds = worker["end"][part] - worker["begin"][part]
        rows.append(
            {
                "rank": rank,
                "node": 0,
                "device": report["device"],
                "cores": report["cores"],
                "steps": part.stop - part.start,
                "samples": summary.worker_samples[rank],
                "seconds": summary.worker_seconds[rank],
                "step_seconds": float(seconds.mean()),
                "phases": phases[rank],
                "last_share": lateness[rank].last_share if lateness else None,
                "late_seconds": lateness[rank].late_seconds if lateness else None,
                "cpu_seconds_per_step": float(worker["cpu"][part].mean()),
                "queued_seconds_per_step": _known(float(worker["queued"][part].mean())),
                "utilisation_percent": float(100 * worker["cpu"][part].sum() / seconds.sum() / report["threads"]),
                "loader_utilisation_percent": report["use"]["loader_percent"],
                "peak_memory_bytes": report["peak_memory_bytes"],
                "peak_device_memory_bytes": report["peak_device_memory_bytes"],
            }
        )
    return rows


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def device_rows(
    plan: Plan, workers: Sequence[dict[str, Any]], reports: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row per device with workers. What processors did for workers on a GPU says nothing about the GPU."""
    rows = []
    for device in dict.fromkeys(w["device"] for w in workers):
        here = [w["rank"] for w in workers if w["device"] == device]
        busy = [reports[rank]["use"]["busy_percent"] for rank in here]
        by_workers = sum(workers[rank]["utilisation_percent"] for rank in here)
        rows.append(
            {
                "device": device,
                "cores": workers[here[0]]["cores"],
                "busy_percent": None if None in busy else sum(busy) / len(busy),
                "workers_percent": by_workers if plan.placement.kind == "cpu" else None,
            }
        )
    return rows


def server_rows(plan: Plan, utilisation: list[float | None] | None) -> list[dict[str, Any]]:
    """One row per parameter server."""
    place = plan.placement.server_place
    return [
        {
            "server": number,
            "device": slot.device,
            "cores": list(slot.cores),
            "place": place,
            "utilisation_percent": utilisation[number] if utilisation else None,
        }
        for number, slot in enumerate(plan.placement.servers)
    ]

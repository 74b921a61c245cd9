"""The rows of a record: one per worker, per device and per server."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
        seconds, cpu = worker["end"][part] - worker["begin"][part], worker["cpu"][part]
        rows.append(
            {
                "rank": rank,
                "node": plan.placement.workers[rank].node,
                "device": report["device"],
                "cores": report["cores"],
                "steps": part.stop - part.start,
                "samples": summary.worker_samples[rank],
                "seconds": summary.worker_seconds[rank],
                "step_seconds": float(seconds.mean()),
                "phases": phases[rank],
                "last_share": lateness[rank].last_share if lateness else None,
                "late_seconds": lateness[rank].late_seconds if lateness else None,
                "cpu_seconds_per_step": _mean_known(cpu),
                "queued_seconds_per_step": _mean_known(worker["queued"][part]),
                "utilisation_percent": _utilisation(cpu, seconds, report["threads"]),
                "loader_utilisation_percent": report["use"]["loader_percent"],
                "peak_memory_bytes": report["peak_memory_bytes"],
                "peak_device_memory_bytes": report["peak_device_memory_bytes"],
            }
        )
    return rows


def _mean_known(values: npt.NDArray[np.float64]) -> float | None:
    """Short steps are not all asked; None where none was, or the system does not tell."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _utilisation(cpu: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64], threads: int) -> float | None:
    known = np.isfinite(cpu)
    return float(100 * cpu[known].sum() / seconds[known].sum() / threads) if known.any() else None


def device_rows(
    plan: Plan, workers: Sequence[dict[str, Any]], reports: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row per device with workers. What processors did for workers on a GPU says nothing about the GPU.

    An emulated device is as busy as its figures say: nothing of it was measured.
    """
    rows = []
    emulated = plan.placement.kind == "emulated"
    for device in dict.fromkeys(w["device"] for w in workers):
        here = [w["rank"] for w in workers if w["device"] == device]
        busy, stolen = ([reports[rank]["use"][name] for rank in here] for name in ("busy_percent", "stolen_percent"))
        used = [workers[rank]["utilisation_percent"] for rank in here]
        by_workers = None if None in used else sum(used)
        rows.append(
            {
                "device": device,
                "cores": workers[here[0]]["cores"],
                "busy_percent": None if None in busy or emulated else sum(busy) / len(busy),
                "stolen_percent": None if None in stolen or emulated else sum(stolen) / len(stolen),
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
            "node": slot.node,
            "device": slot.device,
            "cores": list(slot.cores),
            "place": place,
            "utilisation_percent": utilisation[number] if utilisation else None,
        }
        for number, slot in enumerate(plan.placement.servers)
    ]

"""The rows of a record: one per worker, per device and per server."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from paceline.engines.plan import Plan
from paceline.measure.phases import lateness_of, phases_of, thread_seconds
from paceline.measure.series import WorkerSeries
from paceline.measure.summary import Summary
from paceline.record_parts import DeviceRow, ServerRow, WorkerRow
from paceline.workers.report import WorkerReport


def worker_rows(
    plan: Plan, summary: Summary, series: Sequence[WorkerSeries], reports: Sequence[WorkerReport]
) -> tuple[WorkerRow, ...]:
    """One row per worker: its place and its figures in the timed steps."""
    together = plan.traffic.synchronous
    phases = phases_of(series, summary.timed, synchronous=together)
    lateness = lateness_of(series, summary.timed) if together and len(series) > 1 else None
    rows = []
    for rank, (report, worker, part) in enumerate(zip(reports, series, summary.timed, strict=True)):
        seconds, cpu = worker.end[part] - worker.begin[part], worker.cpu[part]
        rows.append(
            WorkerRow(
                rank=rank,
                node=plan.placement.workers[rank].node,
                device=report.device,
                cores=report.cores,
                steps=part.stop - part.start,
                samples=summary.worker_samples[rank],
                seconds=summary.worker_seconds[rank],
                step_seconds=float(seconds.mean()),
                phases=phases[rank],
                last_share=lateness[rank].last_share if lateness else None,
                late_seconds=lateness[rank].late_seconds if lateness else None,
                cpu_seconds_per_step=_mean_known(cpu),
                queued_seconds_per_step=_mean_known(worker.queued[part]),
                utilisation_percent=_utilisation(cpu, seconds, report.threads),
                loader_utilisation_percent=report.use.loader_percent,
                peak_memory_bytes=report.peak_memory_bytes,
                peak_device_memory_bytes=report.peak_device_memory_bytes,
                thread_cpu_seconds=thread_seconds(worker.thread_cpu, part),
                thread_queued_seconds=thread_seconds(worker.thread_queued, part),
            )
        )
    return tuple(rows)


def _mean_known(values: npt.NDArray[np.float64]) -> float | None:
    """The mean of the measured values: not every short step is measured. None where there are none."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _utilisation(cpu: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64], threads: int) -> float | None:
    known = np.isfinite(cpu)
    return float(100 * cpu[known].sum() / seconds[known].sum() / threads) if known.any() else None


def device_rows(plan: Plan, workers: Sequence[WorkerRow], reports: Sequence[WorkerReport]) -> tuple[DeviceRow, ...]:
    """One row per device with workers. CPU figures of workers on a GPU say nothing about the GPU.

    How busy an emulated device is follows from its figures; it is not measured.
    """
    rows = []
    emulated = plan.placement.kind == "emulated"
    for device in dict.fromkeys(row.device for row in workers):
        here = [row for row in workers if row.device == device]
        use = [reports[row.rank].use for row in here]
        by_workers = _all_known([row.utilisation_percent for row in here])
        busy, stolen = (_all_known([getattr(one, name) for one in use]) for name in ("busy_percent", "stolen_percent"))
        rows.append(
            DeviceRow(
                device=device,
                cores=here[0].cores,
                busy_percent=None if busy is None or emulated else sum(busy) / len(busy),
                stolen_percent=None if stolen is None or emulated else sum(stolen) / len(stolen),
                workers_percent=sum(by_workers) if by_workers and plan.placement.kind == "cpu" else None,
            )
        )
    return tuple(rows)


def _all_known(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def server_rows(plan: Plan, utilisation: Sequence[float | None] | None) -> tuple[ServerRow, ...]:
    """One row per parameter server."""
    return tuple(
        ServerRow(
            server=number,
            node=slot.node,
            device=slot.device,
            cores=tuple(slot.cores),
            place=plan.placement.server_place,
            utilisation_percent=utilisation[number] if utilisation else None,
        )
        for number, slot in enumerate(plan.placement.servers)
    )

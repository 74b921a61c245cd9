"""Turn the workers' reports into a record and its sidecar, and write them into the run's folder."""

import dataclasses
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from paceline import __version__
from paceline.engines.plan import Plan
from paceline.engines.rows import device_rows, server_rows, worker_rows
from paceline.measure import sidecar
from paceline.measure.emulation import host_limits
from paceline.measure.exchange import buckets_of, gradients_of, hidden_seconds
from paceline.measure.links import link_rate, off_rate, slow_link
from paceline.measure.series import WorkerSeries
from paceline.measure.steadiness import stolen_cores
from paceline.measure.summary import Summary, mean_losses, summarise
from paceline.record import Record
from paceline.record_parts import (
    EmulatedDevice,
    Emulation,
    Environment,
    Learning,
    MeasuredNetwork,
    Overlap,
    Phases,
    Throughput,
    WallSeconds,
    WorkerRow,
)
from paceline.spec import RunSpec
from paceline.timing import fixed_timing
from paceline.units import format_bandwidth
from paceline.workers.assignment import series_of
from paceline.workers.report import WorkerReport

_EXPOSED_SHARE = 0.05
"""Share of a step; a shorter exposed exchange does not show how busy the cores were during it."""

Links = MeasuredNetwork | None
"""The links between nodes as measured; None on one node."""


def collect(
    plan: Plan, reports: Sequence[WorkerReport], scratch: Path, out: Path, *, wall_seconds: float, network: Links
) -> Record:
    """Make the record of a finished run, and save it."""
    series = [_series(plan, scratch, rank) for rank in range(len(reports))]
    summary = _summary(plan, series)
    first = reports[0]
    workers = worker_rows(plan, summary, series, reports)
    phases = Phases.mean([row.phases for row in workers])
    record = Record(
        spec=plan.spec,
        workload=first.workload,
        environment=environment(plan, first.versions),
        devices=plan.placement.devices,
        samples_timed=summary.samples_timed,
        units_timed=summary.units_timed,
        steps_timed=summary.steps_timed,
        seconds_timed=summary.seconds_timed,
        warmup_steps=summary.warmup_steps,
        wall_seconds=_walls(reports, wall_seconds),
        throughput=_throughput(summary, first.workload.unit),
        per_worker=workers,
        servers=server_rows(plan, first.strategy.server_utilisation_percent),
        utilisation=device_rows(plan, workers, reports),
        phases=phases,
        overlap=_overlap(series, summary.timed, phases, first.traffic.sent_bytes_per_worker_and_step),
        buckets=buckets_of(series, summary.timed),
        gradients=gradients_of(series, summary.timed, first.gradients),
        learning=_learning(plan, reports, series),
        traffic=first.traffic,
        strategy_report=first.strategy.figures,
        step_percentiles=summary.percentiles,
        network=network,
        emulation=_emulation(plan, reports, workers, network),
        failures=("Stopped by the user before the end.",) if any(r.stopped_early for r in reports) else (),
        warnings=tuple(_warnings(plan, summary, reports, network)),
    )
    out.mkdir(parents=True, exist_ok=True)
    sidecar.save(out, series)
    record.save(out)
    return record


def _summary(plan: Plan, series: Sequence[WorkerSeries]) -> Summary:
    fixed = fixed_timing(plan.spec.timing)
    warmup = fixed.warmup if fixed is not None else None
    return summarise(series, synchronous=plan.traffic.synchronous, fixed_warmup=warmup)


def _series(plan: Plan, scratch: Path, rank: int) -> WorkerSeries:
    """A worker's series, in device time; emulated devices have no loss."""
    with np.load(series_of(scratch, rank)) as arrays:
        series = WorkerSeries.of({name: arrays[name] for name in arrays.files})
    if plan.paces:
        series = dataclasses.replace(series, loss=np.full_like(series.loss, np.nan))
    return series.rescaled(plan.spec.slow_motion)


def _emulation(
    plan: Plan, reports: Sequence[WorkerReport], workers: Sequence[WorkerRow], network: Links
) -> Emulation | None:
    """Which devices were emulated, and whether the host kept up with them."""
    if not plan.paces:
        return None
    emulated = [report.emulated for report in reports if report.emulated is not None]
    planned = [one.device_seconds_per_step / plan.spec.slow_motion for one in emulated]
    taken = [row.phases.forward + row.phases.backward for row in workers]
    if not plan.traffic.servers:  # a server's update is real, and not on the device
        taken = [seconds + row.phases.update for seconds, row in zip(taken, workers, strict=True)]
    # Of the step, so that it is what the figure is off by: 20 ms beside an exchange of 30 s are nothing.
    whole = sum(row.step_seconds for row in workers)
    overrun = float((np.sum(taken) - np.sum(planned)) / whole)
    busy, stolen = _mean([report.use.busy_percent for report in reports]), _stolen_percent(reports)
    exposed = sum(row.phases.exchange + row.phases.wait for row in workers)
    watched = exposed >= _EXPOSED_SHARE * whole
    exchanging = _mean([one.exchange_busy_percent for one in emulated]) if watched else None
    return Emulation(
        devices=tuple(EmulatedDevice(node=n, device=p.device, source=p.source) for n, p in enumerate(plan.paces)),
        slow_motion=plan.spec.slow_motion,
        device_seconds_per_step=float(np.mean(planned)),
        overrun_percent=100 * overrun,
        host_busy_percent=busy,
        host_stolen_percent=stolen,
        exchange_busy_percent=exchanging,
        host_limits=tuple(
            host_limits(
                busy_percent=busy if exchanging is None or busy is None else max(busy, exchanging),
                stolen_percent=stolen,
                overrun=overrun,
                network=network,
            )
        ),
    )


def _stolen_percent(reports: Sequence[WorkerReport]) -> float | None:
    return _mean([report.use.stolen_percent for report in reports])


def _mean(percents: Sequence[float | None]) -> float | None:
    known = [percent for percent in percents if percent is not None]
    return float(np.mean(known)) if len(known) == len(percents) else None


def _walls(reports: Sequence[WorkerReport], wall_seconds: float) -> WallSeconds:
    """Divide the wall time; start-up is what remains."""
    training, validation, checkpoints = (
        max(getattr(report.wall_seconds, name) for report in reports)
        for name in ("training", "validation", "checkpoints")
    )
    return WallSeconds(
        start_up=max(0.0, wall_seconds - training - validation - checkpoints),
        training=training,
        validation=validation,
        checkpoints=checkpoints,
    )


def _throughput(summary: Summary, unit: str) -> Throughput:
    rate = summary.throughput
    low, high = (rate.low, rate.high) if rate.known else (None, None)  # an interval of more than 2x says nothing
    return Throughput(value=rate.value, low=low, high=high, unit=f"{unit}/s")


def _overlap(
    series: Sequence[WorkerSeries], timed: Sequence[slice], phases: Phases, sent_bytes: float
) -> Overlap | None:
    """The buckets show the overlapped part; the exposed part is the time for which workers were blocked."""
    hidden = hidden_seconds(series, timed)
    if hidden is None or not sent_bytes:
        return None
    exposed = phases.exchange + phases.wait
    return Overlap(busy=hidden + exposed, hidden=hidden, exposed=exposed)


def _learning(plan: Plan, reports: Sequence[WorkerReport], series: Sequence[WorkerSeries]) -> Learning:
    """The losses, with samples seen, updates made, global batch, learning rate and its rule, sum or mean.

    Where workers do not wait for one another, each of them updates the servers with its own batch.
    """
    first, spec = reports[0], plan.spec
    together = plan.traffic.synchronous
    alone = plan.traffic.servers and not together
    assert spec.batch is not None, "resolved by the plan"
    return Learning(
        loss=tuple(mean_losses(series)),
        validation=first.validation,
        val_loss=first.validation[-1].loss if first.validation else None,
        updates=sum(report.updates for report in reports) if alone else first.updates,
        samples_seen=sum(report.samples_seen for report in reports),
        global_batch=spec.batch * (spec.workers if together else 1),
        lr=first.lr,
        lr_rule=spec.lr_rule,
        lr_warmup_steps=first.lr_warmup_steps,
        reduction=plan.traffic.reduction,
    )


def _warnings(plan: Plan, summary: Summary, reports: Sequence[WorkerReport], network: Links) -> list[str]:
    """Warnings about the figures or the request; those about an emulation are in `emulation`."""
    disturbed = [] if plan.paces else [*_off_rate(network), *stolen_cores(_stolen_percent(reports))]
    return [*summary.warnings, *_too_wide(plan.spec, summary), *disturbed, *_of_training(reports[0])]


def _too_wide(spec: RunSpec, summary: Summary) -> list[str]:
    """Warn if a run with `until_percent` reached its upper limit first."""
    if spec.until_percent is None:
        return []
    spread = summary.throughput.spread
    if spread is None or not summary.throughput.known:
        known = "it is not known"
    elif 100 * spread <= spec.until_percent:
        return []
    else:
        known = f"it is known only within ± {100 * spread:.1f} %"
    return [
        f"The throughput was requested within ± {spec.until_percent:g} %, but {known}: use a larger --until-percent, "
        "or allow more --seconds or --steps."
    ]


def _off_rate(network: Links) -> list[str]:
    """Warn about links that did not reach the requested rate, and about one that became slower during the run."""
    changed, slow = [], slow_link(network)
    if slow is not None and slow.changed:
        before, after = link_rate(slow.usual_bits_per_second), link_rate(slow.bits_per_second)
        changed = [f"The link of n{slow.node} carried {before} before the run and {after} after it: figures mix both."]
    return changed + [
        f"The link of n{link.node} was measured at {format_bandwidth(rate)} instead of "
        f"{format_bandwidth(link.asked_bits_per_second)}: this machine was the limit. "
        "Stop other work on it, or request less bandwidth."
        for link, rate in off_rate(network)
    ]


def _of_training(first: WorkerReport) -> list[str]:
    warnings = []
    if first.updates < first.lr_warmup_steps:
        warnings.append(
            f"The learning rate was still warming up at the end, after {first.updates} of "
            f"{first.lr_warmup_steps} updates: train longer, or lower --lr-warmup."
        )
    if first.workload.not_trained:
        warnings.append(f"The loss does not depend on {', '.join(first.workload.not_trained)}: not trained.")
    traffic = first.traffic
    if traffic.claimed != traffic.counted:
        warnings.append(f"The strategy claims to move {traffic.claimed} bytes, but {traffic.counted} were counted.")
    return warnings


def environment(plan: Plan, versions: Mapping[str, str]) -> Environment:
    """The machine and versions of the run, which two records must share to be compared."""
    return Environment(
        host=platform.node(),
        system=platform.platform(),
        processor=_processor(),
        cores=os.cpu_count(),
        device_kind=plan.placement.kind,
        backend=plan.placement.backend,
        versions={"paceline": __version__, **versions},
        threads_per_worker=plan.placement.workers[0].threads,
        affinity=tuple(tuple(slot.cores) for slot in plan.placement.workers),
        git=_git_commit(),
    )


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

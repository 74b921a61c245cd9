"""One worker's run: build its parts, train, and report."""

import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch

from paceline.devices.base import Slot
from paceline.errors import SpecError
from paceline.measure.stopping import Stopping
from paceline.record_parts import DataSource, TrafficCount, WallSeconds, WorkloadFacts
from paceline.spec import RunSpec
from paceline.traffic.base import Payload, by_pattern, claimed_bytes
from paceline.workers.assemble import Parts, assemble
from paceline.workers.assignment import Assignment, Handles
from paceline.workers.checkpoint import Progress
from paceline.workers.emulation import EmulatedModel, MeteredReplica
from paceline.workers.limit import Limit
from paceline.workers.link import ParentLink
from paceline.workers.loop import LoopConfig, train
from paceline.workers.messages import Advanced, Precise, Ready, Waiting
from paceline.workers.pause import Pause
from paceline.workers.report import EmulatedUse, TensorSize, WorkerReport
from paceline.workers.schedule import Schedule
from paceline.workers.timing.meter import meter_for

_RSS_UNIT_BYTES = 1024 if sys.platform == "linux" else 1


def run(assignment: Assignment, link: ParentLink, handles: Handles) -> WorkerReport:
    """Train as assigned, and return this worker's report."""
    begun = time.perf_counter()
    parts = assemble(assignment, handles)
    try:
        total = _total_steps(parts)
        pause = _pause(parts, assignment, link)
        config = _loop_config(parts, link, total, pause)
        link.phase, link.clock = "training", config.clock
        link.send(Ready(step=parts.progress.step, total_steps=total))
        started = time.perf_counter()
        pause.meter.resume()
        train(config, parts.feed.batches(parts.progress.step), parts.progress)
        pause.meter.pause()
        training = time.perf_counter() - started
        np.savez(assignment.series, **config.clock.series().arrays())  # type: ignore[arg-type]  # names are never allow_pickle
        return _report(
            parts,
            assignment.slot,
            pause,
            config,
            wall_seconds=WallSeconds(
                start_up=started - begun,
                training=training - pause.validation_seconds - pause.checkpoint_seconds,
                validation=pause.validation_seconds,
                checkpoints=pause.checkpoint_seconds,
            ),
            stopped_early=link.asked_to_stop() and parts.progress.step != total,
        )
    finally:
        parts.close()


def _pause(parts: Parts, assignment: Assignment, link: ParentLink) -> Pause:
    return Pause(
        spec=parts.spec,
        workload=parts.workload,
        data=parts.data,
        module=parts.module,
        replica=parts.replica,
        group=parts.group,
        link=link,
        device=parts.device,
        checkpoints=assignment.checkpoints,
        steps_per_epoch=parts.feed.steps_per_epoch,
        meter=meter_for(assignment.slot.cores, _gpu(parts.device)),
    )


def _loop_config(parts: Parts, link: ParentLink, total: int | None, pause: Pause) -> LoopConfig:
    spec = parts.spec
    warmup = spec.lr_warmup or 0

    def report(progress: Progress, loss: float) -> None:
        link.step = progress.step
        samples = progress.samples_seen * parts.group.size  # about: for the display only
        known = None if isinstance(parts.module, EmulatedModel) else loss  # an emulated device computes no loss
        link.progress(Advanced(step=progress.step, phase="training", samples=samples, loss=known))

    return LoopConfig(
        workload=parts.workload,
        module=parts.module,
        replica=parts.replica,
        group=parts.group,
        clock=parts.clock,
        schedule=Schedule(base=spec.lr or 0.0, rule=spec.lr_rule, workers=spec.workers, warmup_steps=warmup),
        limit=Limit(
            parts.group,
            total_steps=total,
            seconds=spec.seconds,
            synchronous=parts.strategy.same_steps,
            asked_to_stop=link.asked_to_stop,
            precise_enough=_precise_enough(parts, link) if spec.until_percent is not None else None,
            paused_seconds=lambda: pause.seconds,
            waited=parts.clock.agreed,
        ),
        accumulate=spec.accumulate,
        precision=lambda: _precision(spec, parts.device),
        pause=pause,
        progress=report,
        finished=lambda: link.send(Waiting()),
    )


def _precise_enough(parts: Parts, link: ParentLink) -> Callable[[], bool]:
    """A function that checks the throughput's precision: of this worker or, where workers do not wait, of all."""
    stopping, read, reported = Stopping(parts.spec.until_percent or 0.0), 0, False
    together = parts.strategy.same_steps

    def precise_enough() -> bool:
        nonlocal read, reported
        for seconds, units in parts.clock.paces(read):
            stopping.step(seconds, units)
            read += 1
        narrow = stopping.narrow_enough()
        if together:
            return narrow
        if narrow and not reported:
            reported = True
            link.send(Precise())
        return link.all_precise()

    return precise_enough


def _gpu(device: torch.device) -> str | None:
    """The driver's identifier of this worker's GPU."""
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}" if device.type == "cuda" else None


def _gpu_memory(device: torch.device) -> int | None:
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None


def _precision(spec: RunSpec, device: torch.device) -> AbstractContextManager[object]:
    """bf16: matrix products in bfloat16, weights and gradients in float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if spec.precision == "bf16" else nullcontext()


def _total_steps(parts: Parts) -> int | None:
    spec, per_epoch = parts.spec, parts.feed.steps_per_epoch
    if spec.epochs is not None:
        if per_epoch is None:
            raise SpecError(f"--feed {spec.feed} is endless and has no epochs: use --steps or --seconds.")
        total: int | None = spec.epochs * per_epoch
    else:
        total = spec.steps
    if total is not None and total <= parts.progress.step:
        raise SpecError(f"The checkpoint is at step {parts.progress.step} of {total}: give more --steps or --epochs.")
    return total


def _report(
    parts: Parts, slot: Slot, pause: Pause, config: LoopConfig, *, wall_seconds: WallSeconds, stopped_early: bool
) -> WorkerReport:
    steps = len(config.clock.series().end)
    trained = {name: p for name, p in parts.module.named_parameters() if p.requires_grad}
    return WorkerReport(
        device=slot.device,
        cores=tuple(slot.cores),
        threads=slot.threads,
        use=pause.meter.use(),
        wall_seconds=wall_seconds,
        stopped_early=stopped_early,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES,
        peak_device_memory_bytes=_gpu_memory(parts.device),
        workload=_workload_facts(parts),
        gradients=tuple(TensorSize(name=name, bytes=p.nbytes, shape=tuple(p.shape)) for name, p in trained.items()),
        validation=tuple(pause.results),
        updates=parts.progress.step,
        samples_seen=parts.progress.samples_seen,
        lr=config.schedule.target,
        lr_warmup_steps=config.schedule.warmup_steps,
        traffic=_traffic(parts, steps, pause.settles),
        strategy=parts.replica.report(),
        versions={"torch": str(torch.__version__), "python": sys.version.split()[0], "numpy": np.__version__},
        emulated=_emulated_use(parts, steps),
    )


def _workload_facts(parts: Parts) -> WorkloadFacts:
    parameters = list(parts.module.parameters())
    source = DataSource(source=parts.data.source, generated=parts.data.generated)
    if isinstance(parts.module, EmulatedModel):
        source = DataSource(source="none: devices are emulated", generated=True)
    return WorkloadFacts(
        name=parts.workload.name,
        parameters=sum(p.numel() for p in parameters),
        tensors=len(parameters),
        gradient_bytes=sum(p.nbytes for p in parameters if p.requires_grad),
        unit=parts.workload.unit,
        data=source,
        not_trained=tuple(parts.unreached),
    )


def _emulated_use(parts: Parts, steps: int) -> EmulatedUse | None:
    if not isinstance(parts.module, EmulatedModel):
        return None
    assert isinstance(parts.replica, MeteredReplica), "as it is assembled"
    exchanging = parts.replica.meter.use().busy_percent
    return EmulatedUse(device_seconds_per_step=parts.module.seconds_per_step(steps), exchange_busy_percent=exchanging)


def _traffic(parts: Parts, steps: int, settles: int) -> TrafficCount:
    """Payload bytes of this run, by pattern: what the strategy claims, and what this worker's group counted."""
    trained = [p for p in parts.module.parameters() if p.requires_grad]
    payload = Payload(
        gradient_bytes=tuple(p.nbytes for p in trained),
        buffer_bytes=sum(b.nbytes for b in parts.module.buffers()),
        element_bytes=trained[0].element_size(),
        shapes=tuple(tuple(p.shape) for p in trained),
    )
    transfers = parts.strategy.transfers(payload, parts.group.size)
    first_step = parts.progress.step - steps
    return TrafficCount(
        claimed=claimed_bytes(transfers, first_step=first_step, steps=steps, settles=settles),
        counted=dict(+parts.group.tally),
        per_step=by_pattern(transfers, "step"),
        per_settle=by_pattern(transfers, "settle"),
        sent_bytes_per_worker_and_step=sum(t.sent_bytes(parts.group.size) for t in transfers if t.per == "step"),
    )

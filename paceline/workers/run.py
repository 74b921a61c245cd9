"""One worker's run: train with the parts it has, and report."""

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from paceline.errors import SpecError
from paceline.measure.stopping import Stopping
from paceline.spec import RunSpec
from paceline.traffic import catalogue as traffic
from paceline.traffic.base import Payload, by_pattern
from paceline.workers.assemble import Parts, assemble
from paceline.workers.assignment import Assignment, Gifts
from paceline.workers.checkpoint import Progress
from paceline.workers.emulation import EmulatedModel, MeteredReplica
from paceline.workers.limit import Limit
from paceline.workers.link import ParentLink
from paceline.workers.loop import Course, train
from paceline.workers.pause import Pause
from paceline.workers.schedule import Schedule
from paceline.workers.timing.meter import meter_for

_RSS_UNIT_BYTES = 1024 if sys.platform == "linux" else 1


def run(assignment: Assignment, link: ParentLink, gifts: Gifts) -> dict[str, Any]:
    """Train as assigned; what this worker has to report."""
    begun = time.perf_counter()
    parts = assemble(assignment, gifts)
    try:
        total = _total_steps(parts)
        pause = _pause(parts, assignment, link)
        course = _course(parts, link, total, pause)
        link.phase, link.clock = "training", course.clock
        link.send("ready", step=parts.progress.step, total_steps=total)
        started = time.perf_counter()
        pause.meter.resume()
        train(course, parts.feed.batches(parts.progress.step), parts.progress)
        pause.meter.pause()
        training = time.perf_counter() - started
        np.savez(assignment.series, **course.clock.series())  # type: ignore[arg-type]  # names are never allow_pickle
        return {
            **_about_run(parts, course, pause),
            "device": assignment.slot.device,
            "cores": list(assignment.slot.cores),
            "threads": assignment.slot.threads,
            "use": pause.meter.use(),
            "wall_seconds": {
                "start_up": started - begun,
                "training": training - pause.validation_seconds - pause.checkpoint_seconds,
                "validation": pause.validation_seconds,
                "checkpoints": pause.checkpoint_seconds,
            },
            "stopped_early": link.asked_to_stop() and parts.progress.step != total,
        }
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


def _course(parts: Parts, link: ParentLink, total: int | None, pause: Pause) -> Course:
    spec = parts.spec
    warmup = spec.lr_warmup or 0

    def report(progress: Progress, loss: float) -> None:
        link.step = progress.step
        samples = progress.samples_seen * parts.group.size  # about: for the display only
        told = None if isinstance(parts.module, EmulatedModel) else loss
        link.progress(step=progress.step, samples=samples, loss=told, phase="training")

    return Course(
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
            synchronous=traffic.resolve(spec.strategy).synchronous,
            asked_to_stop=link.asked_to_stop,
            measured_enough=_enough(parts, link) if spec.until_percent is not None else None,
        ),
        accumulate=spec.accumulate,
        precision=lambda: _precision(spec, parts.device),
        pause=pause,
        progress=report,
        finished=lambda: link.send("waiting"),
    )


def _enough(parts: Parts, link: ParentLink) -> Callable[[], bool]:
    """Whether the rate is known well enough by now: this worker's, or, where nobody waits for others, everybody's."""
    stopping, told, said = Stopping(parts.spec.until_percent or 0.0), 0, False
    together = traffic.resolve(parts.spec.strategy).synchronous

    def enough() -> bool:
        nonlocal told, said
        for seconds, units in parts.clock.paces(told):
            stopping.step(seconds, units)
            told += 1
        narrow = stopping.narrow_enough()
        if together:
            return narrow
        if narrow and not said:
            said = True
            link.send("enough")
        return link.enough_everywhere()

    return enough


def _gpu(device: torch.device) -> str | None:
    """The identifier by which the driver knows this worker's GPU."""
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
            raise SpecError(f"--feed {spec.feed} has no end, so no epochs: use --steps or --seconds.")
        total: int | None = spec.epochs * per_epoch
    else:
        total = spec.steps
    if total is not None and total <= parts.progress.step:
        raise SpecError(
            f"The checkpoint is at step {parts.progress.step} of {total}: ask for more --steps or --epochs."
        )
    return total


def _about_run(parts: Parts, course: Course, pause: Pause) -> dict[str, Any]:
    model_parameters = dict(parts.module.named_parameters())
    trained = {name: p for name, p in model_parameters.items() if p.requires_grad}
    steps = len(course.clock.series()["end"])
    return {
        "spec": parts.spec.to_dict(),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT_BYTES,
        "peak_device_memory_bytes": torch.cuda.max_memory_allocated(parts.device)
        if parts.device.type == "cuda"
        else None,
        "workload": {
            "name": parts.workload.name,
            "parameters": sum(p.numel() for p in model_parameters.values()),
            "tensors": len(model_parameters),
            "gradient_bytes": sum(p.nbytes for p in trained.values()),
            "unit": parts.workload.unit,
            "data": _about_data(parts),
            "not_trained": parts.unreached,
        },
        **_about_emulation(parts, steps),
        "gradients": [{"name": name, "bytes": p.nbytes} for name, p in trained.items()],
        "validation": pause.results,
        "updates": parts.progress.step,
        "samples_seen": parts.progress.samples_seen,
        "lr": course.schedule.target,
        "lr_warmup_steps": course.schedule.warmup_steps,
        "traffic": _traffic(parts, steps, pause.settles),
        "strategy_report": parts.replica.report(),
        "versions": {"torch": torch.__version__, "python": sys.version.split()[0], "numpy": np.__version__},
    }


def _about_emulation(parts: Parts, steps: int) -> dict[str, Any]:
    if not isinstance(parts.module, EmulatedModel):
        return {}
    assert isinstance(parts.replica, MeteredReplica), "as it is assembled"
    exchanging = parts.replica.meter.use()["busy_percent"]
    return {"device_seconds_per_step": parts.module.seconds_per_step(steps), "exchange_busy_percent": exchanging}


def _about_data(parts: Parts) -> dict[str, Any]:
    if isinstance(parts.module, EmulatedModel):
        return {"source": "none: devices are emulated", "generated": True}
    return {"source": parts.data.source, "generated": parts.data.generated}


def _traffic(parts: Parts, steps: int, settles: int) -> dict[str, Any]:
    """Payload bytes of this run, by pattern: what the strategy claims, and what this worker's group counted."""
    trained = [p for p in parts.module.parameters() if p.requires_grad]
    payload = Payload(
        gradient_bytes=tuple(p.nbytes for p in trained),
        buffer_bytes=sum(b.nbytes for b in parts.module.buffers()),
        element_bytes=trained[0].element_size(),
    )
    transfers = traffic.resolve(parts.spec.strategy).transfers(payload, parts.group.size)
    claimed = Counter({pattern: steps * count for pattern, count in by_pattern(transfers, "step").items()})
    claimed.update({pattern: settles * count for pattern, count in by_pattern(transfers, "settle").items()})
    return {
        "claimed": dict(+claimed),
        "counted": dict(+parts.group.tally),
        "per_step": by_pattern(transfers, "step"),
        "per_settle": by_pattern(transfers, "settle"),
        "sent_bytes_per_worker_and_step": sum(t.sent_bytes(parts.group.size) for t in transfers if t.per == "step"),
    }

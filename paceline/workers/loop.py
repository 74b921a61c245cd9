"""The training loop, on one page."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from torch import nn

from paceline.errors import NonFiniteLoss
from paceline.feeds.base import Batch
from paceline.strategies.base import Replica, Share
from paceline.strategies.group import Group
from paceline.workers.checkpoint import Progress
from paceline.workers.limit import Limit
from paceline.workers.schedule import Schedule
from paceline.workers.timing.clock import Clock
from paceline.workloads.base import BatchTensors, Workload


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """Everything that the training loop uses and that stays the same during a run."""

    workload: Workload
    module: nn.Module
    """The model without any wrapping."""

    replica: Replica
    group: Group
    clock: Clock
    schedule: Schedule
    limit: Limit
    accumulate: int
    precision: Callable[[], AbstractContextManager[object]]
    pause: Callable[[Progress, bool], bool | None]
    """Validation and checkpoints after a step, if due (the flag: it was this worker's last one).

    None when nothing was due; otherwise all workers took part, and the answer is whether training is over for all.
    """

    progress: Callable[[Progress, float], None]
    """Called after every step."""

    finished: Callable[[], None] = lambda: None
    """Called after the last step: from now on this worker only waits for the others."""


def train(config: LoopConfig, batches: Iterator[Batch], progress: Progress) -> None:
    """Train until the limit is reached. Synchronisation points: the barriers, `exchange`, reading the loss."""
    replica, clock, rank = config.replica, config.clock, config.group.rank
    config.module.train()
    config.group.barrier()  # fence: all begin together
    config.limit.begin(progress.step)
    clock.begin()
    last = False
    while not last:
        batch = next(batches)
        clock.mark("input")
        loss_sum = 0.0
        for tensors, share, final in micro_batches(batch, config.accumulate):
            config.module.train(batch.samples > 0)  # a stand-in leaves buffers and random state alone
            with config.precision():
                loss = config.workload.loss(replica.model, tensors)
            clock.mark("forward")
            replica.backward(loss, share=share, last=final)
            value = float(loss.detach())  # reading the loss waits for the device
            clock.mark("backward", then="exchange" if final else "forward")
            if not math.isfinite(value):
                raise NonFiniteLoss(f"The loss became {value} at step {progress.step} on worker {rank}.")
            loss_sum += value * share.samples
        replica.exchange(batch.samples)  # all waiting for others is here
        clock.mark("exchange")
        replica.update(config.schedule.rate(progress.step))
        clock.mark("update")
        progress.step += 1
        progress.samples_seen += batch.samples
        mean_loss = loss_sum / batch.samples if batch.samples else math.nan
        units = config.workload.units(batch.tensors) if batch.samples else 0
        config.progress(progress, mean_loss)
        last = config.limit.reached(progress.step)
        clock.end_step(samples=batch.samples, units=units, loss=mean_loss)
        over = config.pause(progress, last)
        if over is not None:
            last = over
            config.group.barrier()  # fence: all continue together
            clock.begin()
    config.finished()
    config.group.barrier()  # fence: nobody leaves before all are done


def micro_batches(batch: Batch, count: int) -> Iterator[tuple[BatchTensors, Share, bool]]:
    """A worker's batch in `count` parts, as even as they can be; each with its weight and whether it is the last."""
    if batch.samples == 0:
        yield batch.tensors, Share(0, 0, batch.global_samples), True
        return
    parts = min(count, batch.samples)
    pieces = zip(*(t.tensor_split(parts) for t in batch.tensors), strict=True)
    for index, tensors in enumerate(pieces, start=1):
        yield tensors, Share(len(tensors[0]), batch.samples, batch.global_samples), index == parts

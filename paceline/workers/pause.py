"""What happens between steps: validation and checkpoints, timed apart from training."""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from paceline.record_parts import Validation
from paceline.spec import RunSpec
from paceline.strategies.base import Replica
from paceline.strategies.group import Group
from paceline.workers import checkpoint
from paceline.workers.checkpoint import Progress
from paceline.workers.link import ParentLink
from paceline.workers.messages import Advanced, Validated, Waiting
from paceline.workers.timing.meter import Meter
from paceline.workers.validation import validate
from paceline.workloads.base import Data, Workload


@dataclass
class Pause:
    """Runs after every step; takes time only when validation or a checkpoint is due."""

    spec: RunSpec
    workload: Workload
    data: Data
    module: nn.Module
    replica: Replica
    group: Group
    link: ParentLink
    device: torch.device
    checkpoints: Path
    steps_per_epoch: int | None
    meter: Meter
    results: list[Validation] = field(default_factory=list)
    validation_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    settles: int = 0
    seconds: float = 0.0
    """Seconds of all pauses, with the time that workers wait for one another in them."""

    def __call__(self, progress: Progress, last: bool) -> bool | None:
        """Settle, validate and save if due; None if nothing was due, else whether training is over for all workers.

        Workers that do not wait for one another may get here at different steps. All do what one of them has to do,
        and the last step of one ends training for all, because it could not take part in later pauses.
        """
        if not (self._validation_due(progress.step, last) or self._checkpoint_due(progress.step, last)):
            return None
        paused = time.perf_counter()
        self.meter.pause()
        self.link.send(Waiting())  # without a barrier the others may be far behind
        self.replica.settle()  # first of all: a worker that is held back by one that has come here must be let go
        words = self.group.all_gather(torch.tensor([progress.step, int(last), int(self.link.asked_to_stop())]))
        step, last, hurried = int(words[0][0]), any(bool(w[1]) for w in words), any(bool(w[2]) for w in words)
        # A user who stops the run does not wait for a validation, but loses no checkpoint.
        validating = self._validation_due(step, last) and not hurried
        saving = self._checkpoint_due(step, last)
        self.settles += 1
        begun = time.perf_counter()
        if validating:
            self._validate(progress)
        validated = time.perf_counter()
        if saving:
            checkpoint.save(self.checkpoints, self.spec, progress, self.replica, self.group)
        self.validation_seconds += validated - begun
        self.checkpoint_seconds += time.perf_counter() - validated
        self.meter.resume()
        self.seconds += time.perf_counter() - paused
        return last

    def _validation_due(self, step: int, last: bool) -> bool:
        if self.spec.validate == "off" or self.data.validation is None:
            return False
        epoch_over = self.steps_per_epoch is not None and step % self.steps_per_epoch == 0
        return last or (self.spec.validate == "epoch" and epoch_over)

    def _checkpoint_due(self, step: int, last: bool) -> bool:
        every = self.spec.checkpoint_every
        return every is not None and (last or step % every == 0)

    def _validate(self, progress: Progress) -> None:
        assert self.data.validation is not None
        self.link.phase = "validation"
        measured = validate(self.workload, self.module, self.data.validation, self.group, self.device, self._go_on)
        self.link.phase = "training"
        if measured is None:
            return
        figures = {name: value if math.isfinite(value) else None for name, value in measured.items()}
        loss = figures.pop("loss")
        epoch = progress.step / self.steps_per_epoch if self.steps_per_epoch else None
        samples = sum(int(n) for n in self.group.all_gather(torch.tensor([progress.samples_seen])))
        self.results.append(Validation(epoch=epoch, step=progress.step, samples=samples, loss=loss, metrics=figures))
        if self.group.rank == 0:
            self.link.send(Validated(validation=self.results[-1]))

    def _go_on(self) -> bool:
        self.link.progress(Advanced(step=self.link.step, phase="validation"))
        return not self.link.asked_to_stop()

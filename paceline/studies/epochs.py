"""A row per epoch: its duration, and the loss and metrics at its end."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.measure import sidecar
from paceline.record import Record


@dataclass(frozen=True)
class Epoch:
    """One epoch of one run."""

    epoch: int
    seconds: float
    """Training time of the slowest worker, without pauses."""

    loss: float | None
    """The mean loss over its steps."""

    val_loss: float | None
    metrics: Mapping[str, float | None]


def epochs_of(record: Record, folder: Path) -> list[Epoch]:
    """The epochs of a run that ended with a validation."""
    ends = [(v.epoch, v) for v in record.learning.validation if v.epoch is not None and v.epoch.is_integer()]
    if not ends:
        return []
    series = sidecar.load(folder)
    epochs, first = [], 0
    for number, end in ends:
        steps = slice(first, end.step)
        first = end.step
        losses = [loss for loss in record.learning.loss[steps] if loss is not None]
        epochs.append(
            Epoch(
                epoch=int(number),
                seconds=max(float((worker.end[steps] - worker.begin[steps]).sum()) for worker in series),
                loss=statistics.fmean(losses) if losses else None,
                val_loss=end.loss,
                metrics=end.metrics,
            )
        )
    return epochs


def over_repeats(runs: Sequence[Sequence[Epoch]]) -> Iterator[dict[str, float | None]]:
    """Medians over repeats of the same settings, epoch by epoch."""
    for same in zip(*runs, strict=False):
        figures = [{"time": e.seconds, "loss": e.loss, "val_loss": e.val_loss, **e.metrics} for e in same]
        yield {"epoch": same[0].epoch, **{name: _median([f[name] for f in figures]) for name in figures[0]}}


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None

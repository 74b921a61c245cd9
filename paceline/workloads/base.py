"""What a workload is: a model, a loss, data, an optimizer recipe and the unit it counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from paceline.recipe import OptimizerRecipe

BatchTensors: TypeAlias = tuple[Tensor, ...]
Indices: TypeAlias = npt.NDArray[np.int64]
Totals: TypeAlias = Mapping[str, tuple[Tensor, float]]
"""For each quantity, its sum over a batch and the count to divide the total sum by."""


class Examples(Protocol):
    """A finite set of samples that can be fetched by index, in any order."""

    def __len__(self) -> int:
        """How many samples there are."""

    def batch(self, indices: Indices) -> BatchTensors:
        """These samples, stacked along the first dimension of every tensor."""


class Tensors:
    """Examples that are in memory: tensors of equal length."""

    def __init__(self, *tensors: Tensor) -> None:
        lengths = {len(t) for t in tensors}
        if len(lengths) != 1:
            raise ValueError(f"Tensors of one set of examples must have the same length, not {sorted(lengths)}.")
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def batch(self, indices: Indices) -> BatchTensors:
        """These samples of every tensor."""
        rows = torch.from_numpy(indices)
        return tuple(t[rows] for t in self.tensors)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Examples to train on and to validate with, and where they came from."""

    train: Examples
    validation: Examples | None = None

    source: str
    """A path, or a description of the generated data; the record contains it."""

    generated: bool = False


def count_samples(tensors: BatchTensors) -> int:
    """The number of samples in a batch: the length of its first tensor."""
    return len(tensors[0])


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model to be trained; everything a worker needs to know about it."""

    name: str
    unit: str
    """The unit that throughput counts, in the plural: images, words, frames."""

    model: Callable[[], nn.Module]
    """Builds the model; torch's random state determines its weights."""

    loss: Callable[[nn.Module, BatchTensors], Tensor]
    """Runs the model on a batch, and returns the mean loss over its samples."""

    data: Callable[[], Data]
    """Loads or generates the data; called in the worker, once."""

    optimizer: OptimizerRecipe
    batch: int
    """Default samples per worker and update."""

    assess: Callable[[nn.Module, BatchTensors], Totals] | None = None
    """For validation: sums and counts of the loss and of other metrics. Default: the loss alone."""

    units: Callable[[BatchTensors], int] = count_samples
    """How many units a batch holds: samples, unless the workload counts words."""

    def totals(self, model: nn.Module, tensors: BatchTensors) -> Totals:
        """The sums and counts that validation adds up over batches and workers."""
        if self.assess is not None:
            return self.assess(model, tensors)
        samples = count_samples(tensors)
        return {"loss": (self.loss(model, tensors) * samples, samples)}

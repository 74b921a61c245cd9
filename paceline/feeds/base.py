"""The feed protocol: a feed supplies a worker's batches."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from paceline.grammar import require


@dataclass(frozen=True)
class Batch:
    """One worker's part of one update.

    A worker whose part of an uneven last batch is empty gets a stand-in with `samples` 0: the worker runs it
    to take part in the exchange, and it has no weight.
    """

    tensors: tuple[Tensor, ...]
    samples: int
    global_samples: int
    """Samples of all workers in this update."""

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device; tensors that are already there are not copied."""
        return dataclasses.replace(self, tensors=tuple(t.to(device) for t in self.tensors))


@dataclass(frozen=True, kw_only=True)
class FeedContext:
    """The worker that a feed serves, its device, and the batch and seed that all workers share."""

    rank: int
    size: int
    batch: int
    """Samples per worker and update."""

    seed: int
    device: torch.device

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.size, f"rank {self.rank} of {self.size}"
        require(self.batch >= 1, f"batch={self.batch} is not valid: it must be at least 1.")
        require(self.seed >= 0, f"seed={self.seed} is not valid: it must be at least 0.")


class Feed(Protocol):
    """Where a worker's batches come from."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates in one pass over the data; None for an endless feed."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Endless batches from the given step on, epoch after epoch, on the worker's device.

        Background work ends with the iterator: when it is dropped or raises, or when the feed is closed.
        """

    def close(self) -> None:
        """End background threads and processes; may be called repeatedly."""

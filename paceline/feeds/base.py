"""What a feed is: where a worker's batches come from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """One worker's part of one update.

    A worker whose part of an uneven last batch is empty gets a stand-in with `samples` 0: it is run
    so that every worker takes part in the exchange, and weighs nothing.
    """

    tensors: tuple[Tensor, ...]
    samples: int
    global_samples: int
    """Samples of all workers in this update."""


class Feed(Protocol):
    """Where a worker's batches come from."""

    @property
    def steps_per_epoch(self) -> int | None:
        """Updates in one pass over the data; None for a feed without an end."""

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Batches without end, from the given step on: epoch after epoch, on the worker's device."""

    def close(self) -> None:
        """End background threads and processes."""

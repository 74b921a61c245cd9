"""Which samples each worker takes in which step: a function of the seed, the epoch and the rank alone."""

import enum
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from paceline.errors import DataError, SpecError

if TYPE_CHECKING:
    from paceline.workloads.base import Indices


class Purpose(enum.IntEnum):
    """What random numbers are for: with one seed, each purpose gets different numbers."""

    SHARED_ORDER = 0
    OWN_ORDER = 1
    SYNTHETIC = 2


def entropy(seed: int, purpose: Purpose, *key: int) -> np.random.SeedSequence:
    """The seed sequence of the random numbers for this purpose and key."""
    return np.random.SeedSequence(seed, spawn_key=(purpose, *key))


@functools.lru_cache(maxsize=2)  # steps of one epoch follow each other; a second entry for a look across its end
def permutation(samples: int, seed: int, epoch: int, rank: int | None = None) -> "Indices":
    """All samples in the order of one epoch, common to all ranks or of one rank. Read-only."""
    start = (
        entropy(seed, Purpose.SHARED_ORDER, epoch) if rank is None else entropy(seed, Purpose.OWN_ORDER, epoch, rank)
    )
    # Sorted by raw bits: NumPy promises those for ever, but not what Generator.permutation makes of them.
    order = np.argsort(np.random.PCG64(start).random_raw(samples), kind="stable").astype(np.int64, copy=False)
    order.flags.writeable = False
    return order


def portion(samples: int, rank: int, size: int) -> range:
    """The rank's contiguous part of `samples`, without padding: sizes differ by at most one, larger ones first."""
    least, extra = divmod(samples, size)
    first = rank * least + min(rank, extra)
    return range(first, first + least + (rank < extra))


def validation_part(samples: int, rank: int, size: int) -> "Indices":
    """The validation samples of one worker, in the data's own order; none if there are fewer samples than workers."""
    part = portion(samples, rank, size)
    return np.arange(part.start, part.stop, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Order:
    """The samples of one worker, step by step; steps count from 0 over the whole run, epoch after epoch."""

    samples: int
    """Number of samples in the data."""

    batch: int
    """Samples per worker and update."""

    rank: int
    size: int
    seed: int
    shard: bool = True
    """Whether workers divide one order; otherwise each uses all samples in its own order."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise DataError("The data has no training samples: a dataset feed needs at least one.")
        if self.stride <= self.samples:
            return
        what = f"batch={self.batch}"
        if self.shard and self.size > 1:
            what = f"{what} on {self.size} workers is a global batch of {self.stride}, which"
        most = self.samples // self.size if self.shard else self.samples
        remedy = (
            f"a batch of at most {most}" if most else f"at most {self.samples} workers, or the feed dataset:shard=off"
        )
        raise SpecError(f"{what} is larger than the data, {self.samples} training samples: use {remedy}.")

    @property
    def stride(self) -> int:
        """How many samples of an order one full step uses."""
        return self.batch * self.size if self.shard else self.batch

    @property
    def steps_per_epoch(self) -> int:
        """Updates until every sample was used: ⌈samples ÷ stride⌉."""
        return -(-self.samples // self.stride)

    def locate(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and which step of that epoch it is."""
        return divmod(step, self.steps_per_epoch)

    def indices(self, step: int) -> "Indices":
        """The samples this worker takes in a step; none if the last batch of an epoch leaves it empty."""
        epoch, k = self.locate(step)
        order = permutation(self.samples, self.seed, epoch, None if self.shard else self.rank)
        taken = order[k * self.stride : (k + 1) * self.stride]
        if self.shard:
            part = portion(len(taken), self.rank, self.size)
            taken = taken[part.start : part.stop]
        return taken.copy()

    def global_samples(self, step: int) -> int:
        """How many samples all workers together take in a step."""
        _, k = self.locate(step)
        taken = min(self.stride, self.samples - k * self.stride)
        return taken if self.shard else taken * self.size

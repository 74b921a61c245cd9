"""The `synthetic` feed: random batches with the shapes, types and value ranges of the workload's own."""

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from paceline.errors import DataError
from paceline.feeds.base import Batch, Feed, FeedContext
from paceline.feeds.catalogue import SyntheticOptions
from paceline.feeds.order import Purpose, entropy
from paceline.feeds.prefetch import SteppedFeed
from paceline.workloads.base import BatchTensors, Examples


@dataclass(frozen=True)
class Pattern:
    """One tensor of a real batch, and what a synthetic one keeps of it.

    Floats are measurements: new numbers, uniform within the observed range, serve as well as real ones. Anything else
    may have a structure that random numbers would break (a length, a position, a padded sentence and its mask), so
    whole rows are kept and only their order is drawn, the same for all tensors: a sample's parts stay together.
    """

    real: Tensor
    span: tuple[float, float] | None
    """Least and greatest finite value of floats; None for anything else."""

    @classmethod
    def of(cls, real: Tensor) -> "Pattern":
        """What is kept of `real`."""
        if not real.is_floating_point():
            return cls(real, None)
        finite = real[real.isfinite()]
        return cls(real, (finite.min().item(), finite.max().item()) if len(finite) else (0.0, 0.0))


Draw: TypeAlias = Callable[[tuple[Pattern, ...], np.random.SeedSequence], BatchTensors]


def synthetic(options: SyntheticOptions, examples: Examples, context: FeedContext) -> Feed:
    """A feed of batches that resemble these examples, for this worker."""
    if not len(examples):
        raise DataError("The data has no training samples: a synthetic feed needs at least one to imitate.")
    # The same samples for every worker: sentences of other lengths would give workers unequal work.
    rows = np.arange(context.batch, dtype=np.int64) % len(examples)
    patterns = tuple(Pattern.of(t) for t in examples.batch(rows))
    draw = draw_with_numpy if options.at == "python" else draw_with_torch
    make = functools.partial(batch_like, patterns, draw, context)
    if options.at == "device":
        return ConstantFeed(make(0).to(context.device))
    loaders = max(1, options.loaders) if options.at == "python" else 0
    return SteppedFeed(make, steps_per_epoch=None, device=context.device, loaders=loaders, prefetch=options.prefetch)


class ConstantFeed:
    """One batch, made once, on the device: training without input cost."""

    steps_per_epoch: int | None = None

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def batches(self, first_step: int) -> Iterator[Batch]:
        """Yield the same batch in every step."""
        return itertools.repeat(self._batch)

    def close(self) -> None:
        """Do nothing: there is no background work."""


def batch_like(patterns: tuple[Pattern, ...], draw: Draw, context: FeedContext, step: int) -> Batch:
    """A full batch; its numbers depend on the seed, the rank and the step alone."""
    tensors = draw(patterns, entropy(context.seed, Purpose.SYNTHETIC, context.rank, step))
    return Batch(tensors, context.batch, context.batch * context.size)


def draw_with_torch(patterns: tuple[Pattern, ...], start: np.random.SeedSequence) -> BatchTensors:
    """Draw a batch by tensor operations on the host."""
    random = torch.Generator().manual_seed(int(start.generate_state(1, np.uint64)[0]))
    rows = torch.randperm(len(patterns[0].real), generator=random)
    return tuple(
        p.real[rows] if p.span is None else torch.empty_like(p.real).uniform_(*p.span, generator=random)
        for p in patterns
    )


def draw_with_numpy(patterns: tuple[Pattern, ...], start: np.random.SeedSequence) -> BatchTensors:
    """Draw a batch with NumPy, as an input pipeline written in Python does."""
    random = np.random.default_rng(start)
    rows = torch.from_numpy(random.permutation(len(patterns[0].real)))
    return tuple(p.real[rows] if p.span is None else _uniform(p.real, p.span, random) for p in patterns)


def _uniform(like: Tensor, span: tuple[float, float], random: np.random.Generator) -> Tensor:
    low, high = span
    dtype = np.float64 if like.dtype == torch.float64 else np.float32
    values = random.random(tuple(like.shape), dtype=dtype)
    values *= high - low
    values += low
    np.clip(values, low, high, out=values)  # rounding may leave the range by one unit in the last place
    return torch.from_numpy(values).to(like.dtype)

"""The `dataset` feed: the workload's own samples, in the order that all workers share."""

import functools

import numpy as np

from paceline.feeds.base import Batch, Feed, FeedContext
from paceline.feeds.catalogue import DatasetOptions
from paceline.feeds.order import Order
from paceline.feeds.prefetch import SteppedFeed
from paceline.workloads.base import Examples


def dataset(options: DatasetOptions, examples: Examples, context: FeedContext) -> Feed:
    """The feed of these examples for this worker."""
    order = Order(
        samples=len(examples),
        batch=context.batch,
        rank=context.rank,
        size=context.size,
        seed=context.seed,
        shard=options.shard,
    )
    return SteppedFeed(
        functools.partial(batch_of, examples, order),
        steps_per_epoch=order.steps_per_epoch,
        device=context.device,
        loaders=options.loaders,
        prefetch=options.prefetch,
    )


def batch_of(examples: Examples, order: Order, step: int) -> Batch:
    """This worker's samples of one step."""
    indices = order.indices(step)
    if len(indices):
        return Batch(examples.batch(indices), len(indices), order.global_samples(step))
    # Two samples, because batch normalisation refuses to train on one value per channel; an empty worker has a peer,
    # and a full batch for both fits into the data, so there are two.
    stand_in = np.arange(2, dtype=np.int64)
    return Batch(examples.batch(stand_in), 0, order.global_samples(step))

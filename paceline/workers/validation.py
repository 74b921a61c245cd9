"""Validation: divide the set without padding, and add up sums and counts over the workers."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from paceline.feeds.order import validation_part
from paceline.strategies.group import Group
from paceline.workloads.base import Examples, Workload

_BATCH = 250


def validate(
    workload: Workload,
    model: nn.Module,
    examples: Examples,
    group: Group,
    device: torch.device,
    go_on: Callable[[], bool],
) -> dict[str, float] | None:
    """The loss and the metrics over all of `examples`, the same on every worker; None if a worker stopped early.

    Noise comes from a separate random state, so that validation does not disturb training.
    """
    part = validation_part(len(examples), group.rank, group.size)
    # A worker without a part still runs one sample, at weight 0: all must know the same names to add up.
    weight, part = (1.0, part) if len(part) else (0.0, np.zeros(1, dtype=np.int64))
    sums: dict[str, torch.Tensor] = {}
    complete = True
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(group.rank)
        for begin in range(0, len(part), _BATCH):
            tensors = tuple(t.to(device) for t in examples.batch(part[begin : begin + _BATCH]))
            for name, (total, count) in workload.totals(model, tensors).items():
                pair = weight * torch.tensor([float(total), float(count)], dtype=torch.float64)
                sums[name] = sums.get(name, torch.zeros(2, dtype=torch.float64)) + pair
            complete = go_on()
            if not complete:
                break
    model.train(was_training)
    if not all(bool(word) for word in group.all_gather(torch.tensor([int(complete)]))):
        return None
    everyones = torch.stack(group.all_gather(torch.stack(list(sums.values())))).sum(0)
    return {name: float(total / count) for name, (total, count) in zip(sums, everyones, strict=True)}

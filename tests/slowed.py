"""A small workload with a known delay: `slowed:slowed:where=backward,seconds=0.05,rank=1`."""

import time
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline import Data, OptimizerRecipe, Tensors, Workload
from paceline.strategies.group import Pending, TorchGroup

COMPUTE_SECONDS = 0.03


class _Delay(torch.autograd.Function):
    """Nothing, but its gradient takes time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        time.sleep(ctx.seconds)
        return gradient, None


class _SlowPending:
    def __init__(self, pending: Pending, seconds: float) -> None:
        self._pending, self._seconds = pending, seconds

    def wait(self) -> None:
        self._pending.wait()
        time.sleep(self._seconds)


class _SlowTensors(Tensors):
    seconds = 0.0

    def batch(self, rows: np.ndarray) -> tuple[Tensor, ...]:
        time.sleep(self.seconds)
        return super().batch(rows)


def _slow_collectives(seconds: float) -> None:
    quick = TorchGroup.all_reduce

    def slow(self: TorchGroup, tensor: Tensor, then: Any = None) -> Pending:
        return _SlowPending(quick(self, tensor, then), seconds)

    TorchGroup.all_reduce = slow  # type: ignore[method-assign]


def slowed(where: str = "nowhere", seconds: float = 0.0, rank: int = 0) -> Workload:
    """Points on a line, learned by one layer; forward takes 30 ms, and `where` takes `seconds` more."""

    def mine() -> bool:
        return dist.is_initialized() and dist.get_rank() == rank

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        time.sleep(COMPUTE_SECONDS + (seconds if where == "forward" and mine() else 0.0))
        predicted = model(batch[0])
        if where == "backward" and mine():
            predicted = _Delay.apply(predicted, seconds)  # type: ignore[no-untyped-call]
        return nn.functional.mse_loss(predicted, batch[1])

    def data() -> Data:
        if where == "exchange":  # only in a worker, not where the run is planned
            _slow_collectives(seconds)
        x = torch.linspace(-1, 1, 4096).reshape(-1, 1)
        examples = _SlowTensors(x, 2 * x)
        examples.seconds = seconds if where == "input" else 0.0
        return Data(train=examples, validation=None, source="a line", generated=True)

    return Workload(
        name="slowed",
        unit="points",
        model=lambda: nn.Linear(1, 1),
        loss=loss,
        data=data,
        optimizer=OptimizerRecipe.of(partial(torch.optim.SGD, lr=0.05)),
        batch=4,
    )

"""A small workload that misbehaves on request: `faulty:faulty:kind=raise,rank=1,step=3`."""

import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline import Data, OptimizerRecipe, Tensors, Workload

_calls = 0


def _misbehave(kind: str, loss: Tensor) -> Tensor:
    if kind == "raise":
        print("about to go wrong", file=sys.stderr)
        raise RuntimeError("the road ends here")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "sleep":
        time.sleep(600)
    if kind == "nan":
        return loss * float("nan")
    if kind == "exit":
        os._exit(7)
    return loss


def _without_last_layer(model: nn.Module, inputs: Tensor) -> Tensor:
    inner = getattr(getattr(model, "module", model), "inner", model)
    assert isinstance(inner, nn.Sequential)
    loss: Tensor = inner[0](inputs).mean()
    return loss


def faulty(
    kind: str = "none",
    rank: int = 0,
    step: int = 0,
    pause: float = 0.0,
    slow_rank: int = 0,
    slow: float = 0.0,
    unused: bool = False,
    loss_is: str = "mean",
    validation_pause: float = 0.0,
    width: int = 8,
) -> Workload:
    """Points on a line, learned by two layers."""

    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        global _calls
        _calls += model.training
        if not model.training and dist.is_initialized() and torch.is_grad_enabled() is False:
            time.sleep(validation_pause)
        time.sleep(pause + (slow if dist.is_initialized() and dist.get_rank() == slow_rank else 0))
        value = nn.functional.mse_loss(model(batch[0]), batch[1])
        if loss_is != "mean":
            return {"vector": value.repeat(3), "constant": value.detach(), "number": 1.0}[loss_is]  # type: ignore
        if dist.is_initialized() and dist.get_rank() == rank and model.training and _calls == step + 1:
            value = _misbehave(kind, value) if kind != "forget" else _without_last_layer(model, batch[0])
        return value

    def data() -> Data:
        x = torch.linspace(-1, 1, 96).reshape(-1, 1)
        return Data(train=Tensors(x, 2 * x), validation=Tensors(x[::7], 2 * x[::7]), source="a line", generated=True)

    def model() -> nn.Module:
        net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))
        if unused:
            net.register_parameter("spare", nn.Parameter(torch.ones(3)))
        return net

    return Workload(
        name="faulty",
        unit="points",
        model=model,
        loss=loss,
        data=data,
        optimizer=OptimizerRecipe.of(partial(torch.optim.SGD, lr=0.05)),
        batch=8,
    )


def _fail() -> Data:
    raise OSError("the disk is gone")


def _exit() -> Data:
    os._exit(3)


def data_fails() -> Workload:
    """Its data cannot be read."""
    return replace(faulty(), data=_fail)


def data_exits() -> Workload:
    """Its data ends the process that reads it."""
    return replace(faulty(), data=_exit)

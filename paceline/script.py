"""Use Paceline in your own script: a replica of your model under torchrun."""

import atexit
import dataclasses
import os
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import _get_default_store

from paceline.errors import SpecError
from paceline.recipe import OptimizerRecipe
from paceline.strategies import catalogue
from paceline.strategies.base import Events, NoEvents, Replica
from paceline.strategies.group import TorchGroup
from paceline.traffic import catalogue as traffic

_NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def replicate(
    model: nn.Module,
    optimizer: Callable[..., torch.optim.Optimizer] | OptimizerRecipe,
    strategy: str = "allreduce",
    *,
    clip_norm: float | None = None,
    events: Events | None = None,
) -> Replica:
    """Return a replica of `model` that `strategy` keeps in agreement; call it in every process of `torchrun`.

    `optimizer` is a class or `functools.partial(Adam, lr=1e-3)`: servers must be able to build it, too.
    """
    recipe = OptimizerRecipe.of(optimizer)
    if clip_norm is not None:
        recipe = dataclasses.replace(recipe, clip_norm=clip_norm)
    resolved = traffic.resolve(strategy)
    missing = [name for name in _NEEDED if name not in os.environ]
    if missing:
        raise SpecError(f"{', '.join(missing)} not set: start the script with torchrun --nproc-per-node N script.py.")
    if resolved.servers and os.environ["LOCAL_WORLD_SIZE"] != os.environ["WORLD_SIZE"]:
        raise SpecError(
            f"--strategy {strategy}: its servers can be reached on one node only. Use allreduce on several nodes."
        )
    return catalogue.build(resolved).replicate(model, recipe, adopted_group(), events or NoEvents())


def adopted_group() -> TorchGroup:
    """The workers that torchrun started; a process group that exists already is used as it is."""
    if not dist.is_initialized():
        if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # on one node nothing need leave it
        one_gpu_each = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
        dist.init_process_group("nccl" if one_gpu_each else "gloo", timeout=timedelta(minutes=30))
    process_group = dist.group.WORLD
    assert process_group is not None
    group = TorchGroup(
        process_group,
        _get_default_store(),
        node=int(os.environ.get("GROUP_RANK", "0")),
        local_rank=int(os.environ["LOCAL_RANK"]),
    )
    atexit.register(group.quiesce)
    return group

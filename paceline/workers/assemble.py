"""Build the parts of one worker: group, workload, data, model, replica, feed."""

import dataclasses
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import TCPStore

from paceline.feeds import catalogue as feeds
from paceline.feeds.base import Feed, FeedContext
from paceline.recipe import OptimizerRecipe
from paceline.spec import RunSpec
from paceline.strategies import catalogue as strategies
from paceline.strategies.base import Replica, Strategy
from paceline.strategies.group import Group, TorchGroup
from paceline.strategies.ps.launch import ServerSite
from paceline.strategies.ps.spare import launcher
from paceline.traffic.resolved import ResolvedStrategy
from paceline.workers import checkpoint
from paceline.workers.assignment import Assignment, Handles
from paceline.workers.checkpoint import Progress
from paceline.workers.emulation import EmulatedModel, MeteredReplica, Timing, timing_of
from paceline.workers.timing.clock import Clock
from paceline.workers.timing.gradient_times import GradientTimes
from paceline.workers.timing.meter import CoreMeter
from paceline.workers.timing.ticks import DeviceTicks, HostTicks, Ticks
from paceline.workers.trial import freeze, shared_trial
from paceline.workloads import catalogue as workloads
from paceline.workloads.base import Data, Workload

# Peers are watched by the process that started them; torch's own time-out must not be the one that speaks first.
_COLLECTIVE_TIMEOUT = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything that a worker needs to train."""

    spec: RunSpec
    strategy: ResolvedStrategy
    device: torch.device
    group: Group
    workload: Workload
    data: Data
    module: nn.Module
    unreached: list[str]
    """Parameters that get no gradient; they are frozen."""

    clock: Clock
    replica: Replica
    feed: Feed
    progress: Progress

    def close(self) -> None:
        """Close the feed and the replica."""
        self.feed.close()
        self.replica.close()


def assemble(assignment: Assignment, handles: Handles) -> Parts:
    """Join the process group and build all parts."""
    device = _device(assignment)
    workload = workloads.build(assignment.spec.workload)
    data = workload.data()
    spec = assignment.spec
    assert spec.batch is not None, "resolved by the plan"
    group = join(assignment, handles.listener)
    torch.manual_seed(spec.seed)  # the same initial weights everywhere
    module = workload.model().to(device)
    trial = shared_trial(group, module, workload, data, device, count=assignment.rates_only)
    freeze(module, trial.unreached)
    if assignment.pace is not None:
        module, workload = _emulated(module, workload, timing_of(assignment.pace, trial, workload, spec))
    torch.manual_seed(int(np.random.SeedSequence([spec.seed, group.rank]).generate_state(1)[0]))
    context = FeedContext(rank=group.rank, size=group.size, seed=spec.seed, batch=spec.batch, device=device)
    feed = feeds.build(spec.feed, data.train, context)
    recipe = _recipe(spec, workload, idle=assignment.pace is not None and not assignment.placement.servers)
    clock = _clock(module, device)
    replica = _strategy(assignment, handles).replicate(module, recipe, group, clock.buckets)
    if assignment.pace is not None:
        replica = cast(Replica, MeteredReplica(replica, CoreMeter(assignment.slot.cores)))
    progress = Progress()
    if spec.resume is not None:
        progress = checkpoint.load(checkpoint.find(Path(spec.resume)), spec, replica, group)
    return Parts(
        spec=spec,
        strategy=assignment.strategy,
        device=device,
        group=group,
        workload=workload,
        data=data,
        module=module,
        unreached=list(trial.unreached),
        clock=clock,
        replica=replica,
        feed=feed,
        progress=progress,
    )


def _device(assignment: Assignment) -> torch.device:
    """Select the device that this process computes on, and set the number of threads."""
    slot = assignment.slot
    device = torch.device(slot.device if assignment.placement.kind == "cuda" else "cpu")
    torch.set_num_threads(slot.threads)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def _strategy(assignment: Assignment, handles: Handles) -> Strategy:
    site = ServerSite(
        cores=[server.cores for server in assignment.placement.servers],
        addresses=assignment.server_addresses,
        launch=launcher(handles.server_connections),
    )
    return strategies.build(assignment.strategy, site)


def _clock(module: nn.Module, device: torch.device) -> Clock:
    """A clock in device time, which also times buckets and the gradients of trained parameters."""
    ticks: Ticks = HostTicks()
    if device.type == "cuda":
        ticks = DeviceTicks(lambda: torch.cuda.Event(enable_timing=True))
    return Clock(ticks, GradientTimes([p for p in module.parameters() if p.requires_grad], ticks))


def join(assignment: Assignment, listener: socket.socket | None) -> TorchGroup:
    """Join the process group; rank 0 owns the store, on the socket that it receives."""
    os.environ["GLOO_SOCKET_IFNAME"] = assignment.host.interface if assignment.host is not None else "lo"
    store = TCPStore(
        *assignment.store,
        world_size=assignment.size,
        is_master=listener is not None,
        timeout=timedelta(seconds=300),
        # TCPStore binds every interface unless it is handed a socket, which it then owns.
        master_listen_fd=listener.detach() if listener is not None else None,
    )
    backend = assignment.placement.backend
    dist.init_process_group(
        backend, store=store, rank=assignment.rank, world_size=assignment.size, timeout=_COLLECTIVE_TIMEOUT
    )
    process_group = dist.group.WORLD
    assert process_group is not None
    local_rank = assignment.placement.local_rank(assignment.rank)
    return TorchGroup(process_group, store, node=assignment.slot.node, local_rank=local_rank)


def _emulated(module: nn.Module, workload: Workload, timing: Timing) -> tuple[nn.Module, Workload]:
    """An emulated model and workload: same parameters and units, and a loss that takes the device's time."""
    return EmulatedModel(module, timing), dataclasses.replace(workload, loss=lambda model, tensors: model(tensors))


def _recipe(spec: RunSpec, workload: Workload, *, idle: bool) -> OptimizerRecipe:
    """The workload's optimizer at the run's learning rate, or plain SGD, which keeps no state.

    It is idle where a worker updates on an emulated device; a server's update is real.
    """
    own = workload.optimizer
    if spec.optimizer == "sgd":
        own = OptimizerRecipe(factory="paceline.workers.emulation:IdleSGD" if idle else "torch.optim:SGD")
    return dataclasses.replace(own, options={**own.options, "lr": spec.lr}, clip_norm=spec.clip_norm)

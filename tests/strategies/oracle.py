"""The truth that strategies are held to: one process doing what n workers do, in the open."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from paceline.feeds.base import Batch, FeedContext
from paceline.feeds.catalogue import build as build_feed
from paceline.recipe import OptimizerRecipe
from paceline.strategies import catalogue
from paceline.strategies.base import NoEvents
from paceline.strategies.group import Group
from paceline.strategies.ps.launch import ServerSite
from paceline.strategies.ps.server import ServerThread
from paceline.workers.checkpoint import Progress
from paceline.workers.limit import Limit
from paceline.workers.loop import LoopConfig, micro_batches, train
from paceline.workers.schedule import Schedule
from paceline.workers.timing.clock import Clock
from paceline.workers.trial import freeze, try_out
from paceline.workloads import catalogue as workloads
from paceline.workloads.base import Data, Workload

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Case:
    """One way of training, small enough for a test."""

    workload: str
    strategy: str = "allreduce"
    batch: int = 3
    accumulate: int = 1
    clip_norm: float | None = None
    steps: int = 20
    lr: float = 0.01
    seed: int = 7

    @property
    def recipe(self) -> OptimizerRecipe:
        return OptimizerRecipe(factory="torch.optim:SGD", options={"lr": self.lr}, clip_norm=self.clip_norm)


def weights_of(module: nn.Module) -> dict[str, Any]:
    """Parameters and buffers, as arrays that can be sent."""
    return {name: tensor.detach().numpy().copy() for name, tensor in module.state_dict().items()}


def prepare(case: Case) -> tuple[Workload, Data, nn.Module]:
    """The workload in double precision, with its initial weights."""
    workload = workloads.build(case.workload)
    data = workload.data()
    torch.manual_seed(case.seed)
    module = workload.model().double()
    with torch.random.fork_rng():
        freeze(module, try_out(module, _in_double(workload), data, CPU).unreached)
    return workload, data, module


def train_worker(group: Group, case: Case) -> dict[str, Any]:
    """What one worker of `case` ends with: the product's own loop, feed and strategy."""
    workload, data, module = prepare(case)
    seed_of_worker(case.seed, group.rank)
    replica = catalogue.build(case.strategy, ServerSite(launch=ServerThread)).replicate(
        module, case.recipe, group, NoEvents()
    )
    config = LoopConfig(
        workload=workload,
        module=module,
        replica=replica,
        group=group,
        clock=Clock(),
        schedule=Schedule(base=case.lr, rule="none", workers=group.size, warmup_steps=0),
        limit=Limit(group, total_steps=case.steps, seconds=None, synchronous=True, asked_to_stop=lambda: False),
        accumulate=case.accumulate,
        precision=torch.enable_grad,
        pause=lambda progress, last: None,
        progress=lambda progress, loss: None,
    )
    train(config, doubled_batches(case, data, group.rank, group.size), Progress())
    replica.settle()
    result = weights_of(module)
    replica.close()
    return result


def oracle(case: Case, size: int) -> dict[str, Any]:
    """The same micro-batches, random states and weights in one process, gradients added in order of rank."""
    workload, data, module = prepare(case)
    feeds = [doubled_batches(case, data, rank, size) for rank in range(size)]
    optimizer = case.recipe.build([p for p in module.parameters() if p.requires_grad])
    random_states, buffers = [], []
    for rank in range(size):
        seed_of_worker(case.seed, rank)
        random_states.append(torch.get_rng_state())
        buffers.append({name: b.clone() for name, b in module.named_buffers()})
    summing = "reduce=sum" in case.strategy
    for _ in range(case.steps):
        optimizer.zero_grad()
        for rank in range(size):
            torch.set_rng_state(random_states[rank])
            _swap_in(module, buffers[rank])
            batch = next(feeds[rank])
            for tensors, share, _ in micro_batches(batch, case.accumulate):
                module.train(batch.samples > 0)
                weight = share.of_worker if summing else share.of_all
                (workload.loss(module, tensors) * weight).backward()
            random_states[rank] = torch.get_rng_state()
            buffers[rank] = {name: b.clone() for name, b in module.named_buffers()}
        if case.clip_norm is not None:
            nn.utils.clip_grad_norm_(module.parameters(), case.clip_norm)
        optimizer.step()
    _swap_in(module, buffers[0])  # settled buffers are rank 0's
    return weights_of(module)


def large_batch(case: Case, size: int) -> dict[str, Any]:
    """One worker with the whole global batch: what models without noise and batch statistics must equal."""
    workload, data, module = prepare(case)
    whole = Case(workload=case.workload, batch=case.batch * size, steps=case.steps, lr=case.lr, seed=case.seed)
    batches = doubled_batches(whole, data, 0, 1)
    optimizer = case.recipe.build([p for p in module.parameters() if p.requires_grad])
    module.train()
    for _ in range(case.steps):
        optimizer.zero_grad()
        workload.loss(module, next(batches).tensors).backward()
        optimizer.step()
    return weights_of(module)


def largest_difference(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Between two sets of weights."""
    assert a.keys() == b.keys()
    return max(float(np.abs(a[name] - b[name]).max()) for name in a)


def seed_of_worker(seed: int, rank: int) -> None:
    """As the product seeds a worker's noise."""
    torch.manual_seed(int(np.random.SeedSequence([seed, rank]).generate_state(1)[0]))


def doubled_batches(case: Case, data: Data, rank: int, size: int) -> Iterator[Batch]:
    """The feed's batches in double precision."""
    context = FeedContext(rank=rank, size=size, batch=case.batch, seed=case.seed, device=CPU)
    for batch in build_feed("dataset", data.train, context).batches(0):
        tensors = tuple(t.double() if t.is_floating_point() else t for t in batch.tensors)
        yield Batch(tensors, batch.samples, batch.global_samples)


def _swap_in(module: nn.Module, values: dict[str, torch.Tensor]) -> None:
    for name, buffer in module.named_buffers():
        buffer.copy_(values[name])


def _in_double(workload: Workload) -> Workload:
    import dataclasses

    def loss(model: nn.Module, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return workload.loss(model, tuple(t.double() if t.is_floating_point() else t for t in tensors))

    return dataclasses.replace(workload, loss=loss)

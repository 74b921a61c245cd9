"""Training with parameter servers, and the single process it is compared with; shared by the tests of ps."""

import functools
from collections.abc import Callable
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import NoEvents, Replica, Share, State
from paceline.strategies.group import Group, run_in_process
from paceline.strategies.ps.launch import ServerConfig, ServerProcess, ServerSite
from paceline.strategies.ps.server import ServerThread
from paceline.strategies.ps.strategy import ParameterServerStrategy
from paceline.traffic.ps import ParameterServer

SGD = OptimizerRecipe.of(functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01))
ADAM = OptimizerRecipe.of(functools.partial(torch.optim.Adam, lr=0.02))
STEPS = 5

Micro = tuple[Tensor, Tensor]


def make_model(seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(dtype)


def batch(step: int, rank: int, samples: int = 4) -> Micro:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(samples, 5, generator=generator, dtype=torch.float64)
    return inputs, torch.randn(samples, 3, generator=generator, dtype=torch.float64)


def uneven(step: int, rank: int) -> list[Micro]:
    """Micro-batches of unlike sizes: different for every worker and step, two on some."""
    whole = batch(step, rank, 3 + rank + step % 2)
    if rank % 2:
        return [whole]
    return [(whole[0][:2], whole[1][:2]), (whole[0][2:], whole[1][2:])]


def samples_of(micros: list[Micro]) -> int:
    return sum(len(inputs) for inputs, _ in micros)


def mean_loss(model: nn.Module, micro: Micro) -> Tensor:
    return nn.functional.mse_loss(model(micro[0]), micro[1])


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def recipe_with_clipping(recipe: OptimizerRecipe, clip_norm: float) -> OptimizerRecipe:
    return OptimizerRecipe(factory=recipe.factory, options=recipe.options, clip_norm=clip_norm)


def oracle(workers: int, recipe: OptimizerRecipe, steps: int = STEPS) -> Tensor:
    """One process that runs the same micro-batches and weighs each sample alike."""
    model = make_model()
    optimizer = recipe.build(model.parameters())
    for step in range(steps):
        parts = [uneven(step, rank) for rank in range(workers)]
        total = sum(samples_of(micros) for micros in parts)
        for micro in (micro for micros in parts for micro in micros):
            (mean_loss(model, micro) * len(micro[0]) / total).backward()
        if recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


def uneven_step(replica: Replica, group: Group, step: int, lr: float) -> None:
    micros = uneven(step, group.rank)
    own = samples_of(micros)
    total = sum(samples_of(uneven(step, rank)) for rank in range(group.size))
    for position, micro in enumerate(micros):
        share = Share(samples=len(micro[0]), worker_samples=own, global_samples=total)
        replica.backward(mean_loss(replica.model, micro), share=share, last=position == len(micros) - 1)
    replica.exchange(own)
    replica.update(lr)


def even_step(replica: Replica, step: int, rank: int, lr: float = 0.1) -> None:
    replica.backward(mean_loss(replica.model, batch(step, rank)))
    replica.exchange(4)
    replica.update(lr)


T = TypeVar("T")


def with_replicas(
    workers: int,
    options: ParameterServer,
    recipe: OptimizerRecipe,
    work: Callable[[Replica, Group], T],
    *,
    model: Callable[[int], nn.Module] = make_model,
    launch: Callable[[ServerConfig], ServerThread | ServerProcess] = ServerThread,
    timeout_seconds: float | None = 30,
) -> list[T]:
    """Run `work` on every rank; models start unlike, and the strategy has to make them alike."""
    strategy = ParameterServerStrategy(options, site=ServerSite(launch=launch, timeout_seconds=timeout_seconds))
    models = [model(rank) for rank in range(workers)]  # not in the threads: the random state is theirs in common

    def one(group: Group) -> T:
        replica = strategy.replicate(models[group.rank], recipe, group, NoEvents())
        try:
            return work(replica, group)
        finally:
            replica.close()

    return cast(list[T], run_in_process(workers, one))


def trained_unevenly(workers: int, servers: int, recipe: OptimizerRecipe) -> list[Tensor]:
    def work(replica: Replica, group: Group) -> Tensor:
        for step in range(STEPS):
            uneven_step(replica, group, step, recipe.lr)
        return weights(replica.model).clone()

    return with_replicas(workers, ParameterServer(servers=servers), recipe, work)


def plain_sgd() -> "functools.partial[torch.optim.SGD]":
    return functools.partial(torch.optim.SGD, lr=0.1)


def config(
    *, workers: int = 1, sizes: dict[str, int] | None = None, recipe: OptimizerRecipe = SGD, number: int = 0
) -> ServerConfig:
    return ServerConfig(
        number=number, workers=workers, mode="sync", bound=None, recipe=recipe, sizes=sizes or {"float32": 4}
    )


def continued(replica: Replica, group: Group, first: int, last: int, lr: float) -> Tensor:
    for step in range(first, last):
        uneven_step(replica, group, step, lr / (1 + step))
    return weights(replica.model).clone()


def assert_resumes(recipe: OptimizerRecipe, *, workers: int, servers: tuple[int, int] = (2, 2)) -> None:
    options, other_options = (ParameterServer(servers=n) for n in servers)
    straight = with_replicas(workers, options, recipe, lambda r, g: continued(r, g, 0, 6, recipe.lr))
    saved: list[State] = [State()] * workers

    def half(replica: Replica, group: Group) -> None:
        continued(replica, group, 0, 3, recipe.lr)
        replica.settle()
        saved[group.rank] = replica.state()

    def rest(replica: Replica, group: Group) -> Tensor:
        replica.load(State(shared=saved[0].shared, own=saved[group.rank].own))
        assert not group.tally
        return continued(replica, group, 3, 6, recipe.lr)

    with_replicas(workers, options, recipe, half)
    resumed = with_replicas(workers, other_options, recipe, rest, model=lambda rank: make_model(rank + 10))
    for a, b in zip(straight, resumed, strict=True):
        if servers[0] == servers[1]:
            assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)

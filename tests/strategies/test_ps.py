"""Parameter servers: the mathematics of the three modes, the traffic, and the life of the server processes."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import zmq
from torch import Tensor, nn

from paceline import grammar
from paceline.errors import CheckpointError, Hang, RunError, ServerLost, SpecError
from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import NoEvents, Replica, Share, State
from paceline.strategies.flat import FlatModel, ranges
from paceline.strategies.group import Group, run_in_process
from paceline.strategies.launch import ServerConfig, ServerProcess, socket_path
from paceline.strategies.ps import ParameterServerStrategy
from paceline.strategies.server import Server, ServerThread
from paceline.strategies.wire import Message, decode, send
from paceline.traffic.base import Payload, by_pattern
from paceline.traffic.ps import ParameterServer

SGD = OptimizerRecipe.of(functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01))
ADAM = OptimizerRecipe.of(functools.partial(torch.optim.Adam, lr=0.02))
STEPS = 5

Micro = tuple[Tensor, Tensor]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


def with_replicas(
    workers: int,
    options: ParameterServer,
    recipe: OptimizerRecipe,
    work: Callable[[Replica, Group], object],
    *,
    model: Callable[[int], nn.Module] = make_model,
    launch: Callable[[ServerConfig], ServerThread | ServerProcess] = ServerThread,
    timeout_seconds: float | None = 30,
) -> list[object]:
    """Run `work` on every rank; models start unlike, and the strategy has to make them alike."""
    strategy = ParameterServerStrategy(options, launch=launch, timeout_seconds=timeout_seconds)
    models = [model(rank) for rank in range(workers)]  # not in the threads: the random state is theirs in common

    def one(group: Group) -> object:
        replica = strategy.replicate(models[group.rank], recipe, group, NoEvents())
        try:
            return work(replica, group)
        finally:
            replica.close()

    return run_in_process(workers, one)


def trained_unevenly(workers: int, servers: int, recipe: OptimizerRecipe) -> list[Tensor]:
    def work(replica: Replica, group: Group) -> Tensor:
        for step in range(STEPS):
            uneven_step(replica, group, step, recipe.lr)
        return weights(replica.model).clone()

    return with_replicas(workers, ParameterServer(servers=servers), recipe, work)  # type: ignore[return-value]


# sync


@pytest.mark.parametrize("recipe", [SGD, ADAM, recipe_with_clipping(SGD, 0.05)], ids=["sgd", "adam", "clipped"])
@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_sync_trains_as_one_process_does(workers: int, servers: int, recipe: OptimizerRecipe) -> None:
    expected = oracle(workers, recipe)
    for got in trained_unevenly(workers, servers, recipe):
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


def test_the_clipping_of_the_tests_is_felt() -> None:
    assert not torch.allclose(oracle(2, SGD), oracle(2, recipe_with_clipping(SGD, 0.05)), atol=1e-3)


def test_sync_does_not_depend_on_the_order_of_arrival() -> None:
    def late(delays: list[float]) -> list[object]:
        def work(replica: Replica, group: Group) -> Tensor:
            for step in range(STEPS):
                time.sleep(delays[(group.rank + step) % 3])
                uneven_step(replica, group, step, 0.1)
            return weights(replica.model).clone()

        return with_replicas(3, ParameterServer(servers=2), SGD, work)

    one, other = late([0.0, 0.01, 0.02]), late([0.02, 0.01, 0.0])
    for a in one:
        for b in other:
            assert isinstance(a, Tensor)
            assert isinstance(b, Tensor)
            assert torch.equal(a, b)


def test_gradients_are_added_in_order_of_rank() -> None:
    """1e16 + 1 − 1e16 is 0 in that order and 1 in another: the order shows."""
    for arrivals in [(0, 1, 2), (2, 1, 0), (0, 2, 1)]:
        server = Server(config(workers=3, sizes={"float64": 1}, recipe=OptimizerRecipe.of(plain_sgd())))
        server.answer(0, Message("load", {"version": 0}, {"float64": torch.zeros(1, dtype=torch.float64)}))
        gradients = [torch.tensor([g], dtype=torch.float64) for g in (1e16, 1.0, -1e16)]
        answers = [server.answer(w, Message("push", tensors={"float64": gradients[w]})) for w in arrivals]
        assert [len(a) for a in answers] == [0, 0, 3]
        ((_, reply),) = server.answer(0, Message("apply", {"lr": 1.0, "scale": 1.0}))
        assert reply.tensors["float64"].item() == 0.0


def test_parameters_of_several_dtypes_are_trained() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = nn.Linear(5, 4).double()
            self.narrow = nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            return torch.as_tensor(self.narrow(self.wide(inputs).float()).double())

    def mixed(_: int) -> nn.Module:
        torch.manual_seed(0)
        return Mixed()

    alone = mixed(0)
    optimizer = SGD.build(alone.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        mean_loss(alone, batch(step, 0)).backward()
        optimizer.step()

    def work(replica: Replica, _: Group) -> list[Tensor]:
        for step in range(STEPS):
            even_step(replica, step, 0)
        return [p.detach().clone() for p in replica.model.parameters()]

    (got,) = with_replicas(1, ParameterServer(servers=2), SGD, work, model=mixed)
    torch.testing.assert_close(got, [p.detach() for p in alone.parameters()])


def test_more_servers_than_elements_is_no_problem() -> None:
    def tiny(_: int) -> nn.Module:
        torch.manual_seed(0)
        return nn.Linear(5, 1, bias=False).double()

    def work(replica: Replica, _: Group) -> Tensor:
        for step in range(STEPS):
            replica.backward(replica.model(batch(step, 0)[0]).square().mean())
            replica.exchange(4)
            replica.update(0.1)
        return weights(replica.model).clone()

    results = [with_replicas(1, ParameterServer(servers=n), ADAM, work, model=tiny)[0] for n in (1, 7)]
    torch.testing.assert_close(results[0], results[1])


def test_tied_parameters_stay_tied() -> None:
    def tied(_: int) -> nn.Module:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)).double()
        model[1].weight = model[0].weight
        return model

    def work(replica: Replica, group: Group) -> bool:
        even_step(replica, 0, group.rank)
        first, second, _ = replica.model.children()
        assert isinstance(first.weight, Tensor)
        assert isinstance(second.weight, Tensor)
        return first.weight is second.weight and first.weight.data_ptr() == second.weight.data_ptr()

    assert with_replicas(2, ParameterServer(), SGD, work, model=tied) == [True, True]


def test_gradients_that_left_their_buffer_are_brought_back() -> None:
    def work(replica: Replica, group: Group) -> Tensor:
        for step in range(STEPS):
            replica.model.zero_grad(set_to_none=True)
            uneven_step(replica, group, step, 0.1)
        return weights(replica.model).clone()

    (got,) = with_replicas(1, ParameterServer(servers=2), SGD, work)
    torch.testing.assert_close(got, oracle(1, SGD), rtol=0, atol=1e-10)


def test_a_sync_worker_whose_peer_has_left_is_told() -> None:
    def work(replica: Replica, group: Group) -> None:
        even_step(replica, 0, group.rank)
        if group.rank == 1:
            even_step(replica, 1, group.rank)

    with pytest.raises(RunError, match="worker 0 has left"):
        with_replicas(2, ParameterServer(), SGD, work)


def test_workers_that_disagree_on_the_learning_rate_are_told() -> None:
    def work(replica: Replica, group: Group) -> None:
        even_step(replica, 0, group.rank, lr=0.1 * (1 + group.rank))

    with pytest.raises(RunError, match="disagree on lr"):
        with_replicas(2, ParameterServer(), SGD, work)


# async and stale


@pytest.mark.parametrize("mode", ["async", "stale"])
@pytest.mark.parametrize("servers", [1, 3])
def test_one_worker_without_a_barrier_trains_as_one_process_does(mode: str, servers: int) -> None:
    def work(replica: Replica, group: Group) -> Tensor:
        for step in range(STEPS):
            uneven_step(replica, group, step, ADAM.lr)
        replica.settle()
        assert replica.report() == {"mean_staleness": 0, "max_staleness": 0}
        return weights(replica.model).clone()

    options = grammar.bind(grammar.parse(f"ps:mode={mode},servers={servers}", ""), ParameterServer, "strategy")
    (got,) = with_replicas(1, options, ADAM, work)
    torch.testing.assert_close(got, oracle(1, ADAM), rtol=0, atol=1e-10)


def test_async_loses_no_update_and_settles_on_the_same_weights() -> None:
    """Plain SGD on a linear loss: the sum of all updates does not depend on their order."""

    def line(_: int) -> nn.Module:
        return nn.Linear(5, 3, bias=False).double()

    def work(replica: Replica, group: Group) -> tuple[Tensor, Tensor]:
        before = weights(replica.model).clone()
        for step in range(STEPS + group.rank):
            replica.backward(replica.model(batch(step, group.rank)[0]).sum(1).mean())
            replica.exchange(4)
            replica.update(0.1)
        replica.settle()
        return before, weights(replica.model).clone()

    results = with_replicas(
        3, ParameterServer(mode="async", servers=2), OptimizerRecipe.of(plain_sgd()), work, model=line
    )
    start, end = results[0]  # type: ignore[misc]
    moved = sum(batch(s, r)[0].mean(0) for r in range(3) for s in range(STEPS + r))
    torch.testing.assert_close(start - end, torch.as_tensor(0.1 * moved).repeat(3))
    for other_start, other_end in results[1:]:  # type: ignore[misc]
        assert torch.equal(other_start, start)
        assert torch.equal(other_end, end)


def test_staleness_counts_the_updates_in_between() -> None:
    """Worker 1 holds its parameters while worker 0 makes four updates."""

    def work(replica: Replica, group: Group) -> dict[str, object]:
        if group.rank == 1:
            replica.backward(mean_loss(replica.model, batch(0, 1)))
            group.barrier()
        for step in range(4 if group.rank == 0 else 0):
            even_step(replica, step, 0)
        if group.rank == 0:
            group.barrier()
        group.barrier()
        if group.rank == 1:
            replica.exchange(4)
            replica.update(0.1)
        replica.settle()
        return replica.report()

    report, other = with_replicas(2, ParameterServer(mode="async", servers=2), SGD, work)
    assert report == {"mean_staleness": 4 / 5, "max_staleness": 4}
    assert other == {}


def run_ahead(bound: int, steps: int) -> tuple[list[int], list[object]]:
    """Worker 1 sleeps before each step; by how many of its updates worker 0 was ahead when it was let go."""
    made = [0, 0]
    leads: list[int] = []

    def work(replica: Replica, group: Group) -> object:
        for step in range(steps):
            if group.rank == 1:
                time.sleep(0.03)
            replica.backward(mean_loss(replica.model, batch(step, group.rank)))
            replica.exchange(4)
            if group.rank == 0:
                leads.append(step - made[1])
            else:
                made[1] = step + 1  # before the update, so that worker 0 cannot be let go by it earlier
            replica.update(0.1)
        replica.settle()
        return weights(replica.model).clone()

    return leads, with_replicas(2, ParameterServer(mode="stale", bound=bound), SGD, work)


@pytest.mark.parametrize("bound", [0, 2])
def test_a_fast_worker_gets_exactly_bound_steps_ahead_and_no_more(bound: int) -> None:
    leads, (one, other) = run_ahead(bound, steps=8)
    assert max(leads) == bound
    assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


@pytest.mark.parametrize("ending", ["close", "settle"])
def test_a_worker_that_stops_early_does_not_hold_the_others_back(ending: str) -> None:
    def work(replica: Replica, group: Group) -> int:
        for step in range(1 if group.rank == 1 else 9):
            even_step(replica, step, group.rank)
        if ending == "settle":
            replica.settle()
            for step in range(3):  # and afterwards all begin level again
                even_step(replica, step, group.rank)
        return group.rank

    assert with_replicas(2, ParameterServer(mode="stale", bound=1), SGD, work, timeout_seconds=10) == [0, 1]


def test_a_worker_that_waits_too_long_says_for_what() -> None:
    def work(replica: Replica, group: Group) -> None:
        if group.rank == 1:
            time.sleep(1.0)
            return
        even_step(replica, 0, 0)
        even_step(replica, 1, 0)

    with pytest.raises(Hang, match=r"Worker 0 waited 0 s for 'go'"):
        with_replicas(2, ParameterServer(mode="stale", bound=0), SGD, work, timeout_seconds=0.4)


# requests that make no sense


@pytest.mark.parametrize("mode", ["async", "stale"])
def test_clipping_by_the_global_norm_needs_sync(mode: str) -> None:
    options = grammar.bind(grammar.parse(f"ps:mode={mode}", ""), ParameterServer, "strategy")
    with pytest.raises(SpecError, match=r"clip_norm=1\.0 needs .* ps:mode=sync"):
        with_replicas(1, options, recipe_with_clipping(SGD, 1.0), lambda *_: None)


@pytest.mark.parametrize(
    ("factory", "options"),
    [("LBFGS", {}), ("SparseAdam", {}), ("Adafactor", {"lr": 0.01}), ("Muon", {})],
)
def test_an_optimizer_that_looks_at_whole_tensors_is_refused(factory: str, options: dict[str, float]) -> None:
    recipe = OptimizerRecipe(factory=f"torch.optim:{factory}", options=options)
    with pytest.raises(SpecError, match=f"{factory}: a server updates ranges .* tensor borders"):
        with_replicas(1, ParameterServer(), recipe, lambda *_: None)


@pytest.mark.parametrize(
    "factory",
    ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "Adagrad", "Adadelta", "ASGD"],
)
def test_every_elementwise_optimizer_of_torch_resumes_bit_for_bit(factory: str) -> None:
    assert_resumes(OptimizerRecipe(factory=f"torch.optim:{factory}", options={"lr": 0.01}), workers=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ps:servers=0", "servers=0 must be at least 1"),
        ("ps:bound=2", "bound=2 has no meaning with mode=sync"),
        ("ps:mode=async,bound=2", "bound=2 has no meaning with mode=async"),
        ("ps:mode=stale,bound=-1", "bound=-1 must be at least 0"),
        ("ps:mode=slow", "no value in .*'slow'.*Valid: sync, async, stale"),
        ("ps:server=2", "Did you mean 'servers'"),
    ],
)
def test_options_that_make_no_sense_are_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        grammar.bind(grammar.parse(text, "strategy"), ParameterServer, "strategy")


def test_the_bound_that_holds_is_written() -> None:
    assert grammar.write("ps", ParameterServer(mode="stale")) == "ps:mode=stale,bound=3"
    assert grammar.write("ps", ParameterServer()) == "ps"


def test_cores_must_be_given_for_every_server() -> None:
    with pytest.raises(SpecError, match="cores for 1 servers do not fit servers=2"):
        ParameterServerStrategy(ParameterServer(servers=2), server_cores=[[0]])


def test_a_parameter_without_a_gradient_is_named() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Linear(5, 3).double()
            self.forgotten = nn.Linear(5, 3).double()

        def forward(self, inputs: Tensor) -> Tensor:
            return torch.as_tensor(self.used(inputs))

    with pytest.raises(SpecError, match=r"forgotten\.weight, forgotten\.bias.*requires_grad_\(False\)"):
        with_replicas(1, ParameterServer(), SGD, lambda r, _: even_step(r, 0, 0), model=lambda _: Forgetful())


def test_a_frozen_parameter_starts_from_rank_0_and_stays() -> None:
    def half_frozen(seed: int) -> nn.Module:
        model = make_model(seed)
        next(model.parameters()).requires_grad_(False)
        return model

    def work(replica: Replica, group: Group) -> Tensor:
        even_step(replica, 0, group.rank)
        return next(replica.model.parameters()).detach().clone()

    expected = next(make_model(0).parameters()).detach()
    for got in with_replicas(2, ParameterServer(), SGD, work, model=half_frozen):
        assert torch.equal(torch.as_tensor(got), expected)


def test_unlike_numbers_of_samples_need_a_share() -> None:
    def work(replica: Replica, group: Group) -> None:
        replica.backward(mean_loss(replica.model, batch(0, 0, 2 + group.rank)))
        replica.exchange(2 + group.rank)

    with pytest.raises(SpecError, match="pass share="):
        with_replicas(2, ParameterServer(), SGD, work)


# ranges and traffic


@pytest.mark.parametrize("elements", [0, 1, 7, 1000])
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_ranges_cover_everything_and_differ_by_one_element_at_most(elements: int, parts: int) -> None:
    cuts = ranges(elements, parts)
    assert [i for cut in cuts for i in range(elements)[cut]] == list(range(elements))
    lengths = [cut.stop - cut.start for cut in cuts]
    assert max(lengths) - min(lengths) <= 1


def test_a_large_tensor_is_split_between_servers() -> None:
    flat = FlatModel(nn.Linear(100, 10))
    assert flat.sizes == {"float32": 1010}
    assert [cut.stop for cut in ranges(1010, 3)] == [336, 673, 1010]


@pytest.mark.parametrize("mode", ["sync", "async", "stale"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("servers", [1, 3])
def test_bytes_claimed_are_bytes_counted(mode: str, workers: int, servers: int) -> None:
    steps, settles = 3, 2

    def normed(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3)).double()

    def work(replica: Replica, group: Group) -> dict[str, int]:
        for step in range(steps):
            even_step(replica, step, group.rank)
        for _ in range(settles):
            replica.settle()
        return dict(group.tally)

    model = normed(0)
    options = grammar.bind(grammar.parse(f"ps:mode={mode},servers={servers}", ""), ParameterServer, "strategy")
    payload = Payload(tuple(p.nbytes for p in model.parameters()), sum(b.nbytes for b in model.buffers()))
    claims = options.transfers(payload, workers)
    claimed: dict[str, int] = {}
    for per, times in (("step", steps), ("settle", settles)):
        for pattern, size in by_pattern(claims, per).items():
            claimed[pattern] = claimed.get(pattern, 0) + times * size
    assert claimed["to_server"] == steps * sum(p.nbytes for p in model.parameters())
    for counted in with_replicas(workers, options, SGD, work, model=normed):
        assert counted == claimed


def test_every_server_is_a_bucket_that_becomes_ready_starts_and_ends() -> None:
    seen: list[tuple[str, int]] = []

    class Listener:
        def ready(self, bucket: int, payload_bytes: int) -> None:
            assert payload_bytes == [33 * 8, 33 * 8][bucket]
            seen.append(("ready", bucket))

        def start(self, bucket: int) -> None:
            seen.append(("start", bucket))

        def end(self, bucket: int) -> None:
            seen.append(("end", bucket))

    def work(group: Group) -> None:
        strategy = ParameterServerStrategy(ParameterServer(servers=2), launch=ServerThread, timeout_seconds=10)
        replica = strategy.replicate(make_model(), SGD, group, Listener())
        even_step(replica, 0, 0)
        replica.close()

    run_in_process(1, work)
    assert seen[:4] == [("ready", 0), ("start", 0), ("ready", 1), ("start", 1)]
    assert sorted(seen[4:]) == [("end", 0), ("end", 1)]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_settle_makes_rank_0s_buffers_everyones(mode: str) -> None:
    def normed(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3)).double()

    def work(replica: Replica, group: Group) -> tuple[list[Tensor], list[Tensor]]:
        for step in range(2):
            even_step(replica, step, group.rank)
        before = [b.clone() for b in replica.model.buffers()]
        replica.settle()
        return before, list(replica.model.buffers())

    options = grammar.bind(grammar.parse(f"ps:mode={mode}", ""), ParameterServer, "strategy")
    first, second = with_replicas(2, options, SGD, work, model=normed)
    assert not torch.equal(first[0][0], second[0][0])  # type: ignore[index]
    for kept, own, other in zip(first[0], first[1], second[1], strict=True):  # type: ignore[index]
        assert torch.equal(kept, own)
        assert torch.equal(kept, other)


# state


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


@pytest.mark.parametrize("recipe", [SGD, ADAM, recipe_with_clipping(ADAM, 0.1)], ids=["sgd", "adam", "clipped"])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_resumed_sync_run_is_bit_for_bit_the_run_it_continues(workers: int, recipe: OptimizerRecipe) -> None:
    assert_resumes(recipe, workers=workers)


@pytest.mark.parametrize("servers", [(1, 3), (3, 2)])
def test_a_run_resumes_with_another_number_of_servers(servers: tuple[int, int]) -> None:
    assert_resumes(ADAM, workers=2, servers=servers)


def test_an_async_state_holds_every_update_once() -> None:
    def half(replica: Replica, group: Group) -> tuple[State, Tensor]:
        for step in range(4):
            even_step(replica, step, group.rank)
        replica.settle()
        state, then = replica.state(), weights(replica.model).clone()
        even_step(replica, 4, group.rank)  # at once: it must not get into the state
        return state, then

    options = ParameterServer(mode="async", servers=3)
    (state, then), _ = with_replicas(2, options, ADAM, half)  # type: ignore[misc]
    assert state.shared["version"] == 8
    assert all(t.item() == 8 for path, t in state.shared["scalars"].items() if path.endswith("/step"))

    def rest(replica: Replica, group: Group) -> Tensor:
        replica.load(State(shared=state.shared, own=state.own))
        return weights(replica.model).clone()

    for got in with_replicas(2, options, ADAM, rest):
        assert torch.equal(torch.as_tensor(got), then)


def test_a_checkpoint_of_another_model_is_refused() -> None:
    def work(replica: Replica, _: Group) -> None:
        state = replica.state()
        state.shared["parameters"]["surprise"] = torch.zeros(1)
        replica.load(state)

    with pytest.raises(CheckpointError, match="surprise"):
        with_replicas(1, ParameterServer(), SGD, work)


# the server and strangers


def plain_sgd() -> "functools.partial[torch.optim.SGD]":
    return functools.partial(torch.optim.SGD, lr=0.1)


def config(
    *, workers: int = 1, sizes: dict[str, int] | None = None, recipe: OptimizerRecipe = SGD, number: int = 0
) -> ServerConfig:
    return ServerConfig(
        number=number, workers=workers, mode="sync", bound=None, recipe=recipe, sizes=sizes or {"float32": 4}
    )


def test_a_config_survives_its_way_to_the_server() -> None:
    given = config(recipe=recipe_with_clipping(ADAM, 0.5))
    assert ServerConfig.from_json(given.to_json()) == given


class Explosive:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("exploded",)


def test_garbage_neither_kills_the_server_nor_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    monkeypatch.chdir(tmp_path)
    server = ServerThread(config())
    with zmq.Context() as context:
        strangers = [context.socket(zmq.DEALER) for _ in range(2)]
        worker = context.socket(zmq.DEALER)
        worker.setsockopt(zmq.ROUTING_ID, b"0")
        for socket in [*strangers, worker]:
            socket.linger = 0
            socket.connect(server.endpoint())
        explosive = pickle.dumps(Explosive())
        for socket in strangers:
            for parts in ([b""], [explosive], [b"{}"], [b'{"kind": "leave", "fields": {}, "tensors": []}']):
                socket.send_multipart(parts)
        for parts in (
            [explosive],
            [b""],
            [b'{"kind": "load", "fields": {}, "tensors": []}'],
            [b'{"kind": "apply", "fields": {"lr": "x", "scale": []}, "tensors": []}'],
            [b'{"kind": "apply", "fields": {"lr": 1, "scale": 1}, "tensors": []}'],
            [b'{"kind": "push", "fields": {}, "tensors": []}'],
            [b'{"kind": "__class__", "fields": {}, "tensors": []}'],
        ):
            worker.send_multipart(parts)
            assert decode(worker.recv_multipart(copy=False)).kind == "refused"
        send(worker, Message("load", {"version": 0}, {"float32": torch.arange(4.0)}))
        assert decode(worker.recv_multipart(copy=False)).kind == "loaded"
        send(worker, Message("pull"))
        answer = decode(worker.recv_multipart(copy=False))
        assert torch.equal(answer.tensors["float32"], torch.arange(4.0))
        for socket in [*strangers, worker]:
            socket.close()
    assert server.failure() is None
    folder = socket_path(server.endpoint()).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    server.close()
    assert not folder.exists()
    assert not list(tmp_path.iterdir())


# real processes


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_server_processes_train_ignore_ctrl_c_and_leave_nothing_behind() -> None:
    started: list[ServerProcess] = []

    def launch(given: ServerConfig) -> ServerProcess:
        started.append(ServerProcess(given))
        return started[-1]

    def work(replica: Replica, group: Group) -> Tensor:
        for step in range(STEPS):
            uneven_step(replica, group, step, 0.1)
            if group.rank == 0:
                os.kill(started[0].pid, signal.SIGINT)
        return weights(replica.model).clone()

    for got in with_replicas(2, ParameterServer(servers=2), SGD, work, launch=launch):
        torch.testing.assert_close(got, oracle(2, SGD), rtol=0, atol=1e-10)
    assert len(started) == 2
    assert not any(is_alive(server.pid) for server in started)
    assert not any(socket_path(server.endpoint()).parent.exists() for server in started)


def test_a_killed_server_is_named_to_every_worker_within_seconds() -> None:
    started: list[ServerProcess] = []
    killed = threading.Event()
    told: dict[int, str] = {}

    def launch(given: ServerConfig) -> ServerProcess:
        started.append(ServerProcess(given))
        return started[-1]

    def work(replica: Replica, group: Group) -> float:
        even_step(replica, 0, group.rank)
        group.barrier()
        if group.rank == 0:
            os.kill(started[1].pid, signal.SIGKILL)
            killed.set()
        assert killed.wait(10)
        began = time.monotonic()
        try:
            even_step(replica, 1, group.rank)
        except ServerLost as error:
            told[group.rank] = str(error)
        return time.monotonic() - began

    waits = with_replicas(2, ParameterServer(servers=2), SGD, work, launch=launch, timeout_seconds=None)
    assert told[0].startswith("Parameter server 1 was killed by SIGKILL")
    assert told[1].startswith("Parameter server 1 is gone")
    assert max(torch.tensor(waits).tolist()) < 10
    assert not any(is_alive(server.pid) for server in started)
    assert not any(socket_path(server.endpoint()).parent.exists() for server in started)


def test_a_server_that_cannot_start_says_why() -> None:
    broken = OptimizerRecipe(factory="torch.optim:NoSuchOptimizer")
    server = ServerProcess(config(recipe=broken, number=3))
    with pytest.raises(ServerLost, match=r"(?s)server 3 did not start: it ended with exit code 1.*NoSuchOptimizer"):
        server.endpoint()
    server.close()


PARENT = """
import sys, time
from paceline.strategies.launch import ServerConfig, ServerProcess
server = ServerProcess(ServerConfig.from_json(sys.argv[1]))
print(server.pid, server.endpoint(), flush=True)
time.sleep(60)
"""


def test_a_server_whose_worker_was_killed_ends_and_removes_its_folder() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, config().to_json()], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, endpoint = parent.stdout.readline().split()
    folder = socket_path(endpoint).parent
    assert folder.exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until(lambda: not folder.exists())
    assert until(lambda: not is_alive(int(pid)) or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def test_a_terminated_server_removes_its_folder() -> None:
    server = ServerProcess(config())
    folder = socket_path(server.endpoint()).parent
    os.kill(server.pid, signal.SIGTERM)
    assert until(lambda: server.failure() is not None)
    assert not folder.exists()
    server.close()


def test_a_server_is_pinned_to_its_cores() -> None:
    core = min(os.sched_getaffinity(0))
    given = json.loads(config().to_json()) | {"cores": [core]}
    server = ServerProcess(ServerConfig.from_json(json.dumps(given)))
    server.endpoint()
    assert os.sched_getaffinity(server.pid) == {core}
    server.close()
    assert not is_alive(server.pid)

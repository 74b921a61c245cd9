"""Parameter servers: the mathematics of the three modes, and what is refused."""

import threading
import time

import pytest
import torch
from strategies.ps_training import (
    ADAM,
    SGD,
    STEPS,
    assert_resumes,
    batch,
    config,
    even_step,
    make_model,
    mean_loss,
    oracle,
    plain_sgd,
    recipe_with_clipping,
    trained_unevenly,
    uneven_step,
    weights,
    with_replicas,
)
from torch import Tensor, nn

from paceline import grammar
from paceline.errors import Hang, ReplicaMisuse, RunError, SpecError
from paceline.recipe import OptimizerRecipe
from paceline.record_parts import StrategyFigures
from paceline.strategies.base import Replica
from paceline.strategies.group import Group
from paceline.strategies.ps.launch import ServerSite
from paceline.strategies.ps.server import Server
from paceline.strategies.ps.strategy import ParameterServerStrategy
from paceline.strategies.ps.wire import Message
from paceline.traffic.ps import ParameterServer

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
    """1e16 + 1 is 1e16 in float64: of two elements, one shows a change of the last two ranks, one a reversal."""
    gradients = torch.tensor([[1e16, 1.0], [1.0, 1e16], [-1e16, -1e16]], dtype=torch.float64)
    for arrivals in [(0, 1, 2), (2, 1, 0), (0, 2, 1)]:
        server = Server(config(workers=3, sizes={"float64": 2}, recipe=OptimizerRecipe.of(plain_sgd())))
        server.answer(0, Message("load", {"version": 0}, {"float64": torch.zeros(2, dtype=torch.float64)}))
        answers = [server.answer(w, Message("push", tensors={"float64": gradients[w]})) for w in arrivals]
        assert [len(a) for a in answers] == [0, 0, 3]
        ((_, reply),) = server.answer(0, Message("apply", {"lr": 1.0, "scale": 1.0}))
        assert reply.tensors["float64"].tolist() == [0.0, 0.0]


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
        assert replica.report().figures == {"mean_staleness": 0, "max_staleness": 0}
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
    start, end = results[0]
    moved = sum(batch(s, r)[0].mean(0) for r in range(3) for s in range(STEPS + r))
    torch.testing.assert_close(start - end, torch.as_tensor(0.1 * moved).repeat(3))
    for other_start, other_end in results[1:]:
        assert torch.equal(other_start, start)
        assert torch.equal(other_end, end)


def test_staleness_counts_the_updates_in_between() -> None:
    """Worker 1 holds its parameters while worker 0 makes four updates."""

    def work(replica: Replica, group: Group) -> StrategyFigures:
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
    assert report.figures == {"mean_staleness": 4 / 5, "max_staleness": 4}
    assert other == StrategyFigures()


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
    over = threading.Event()

    def work(replica: Replica, group: Group) -> None:
        if group.rank == 1:
            assert over.wait(20)
            return
        try:
            even_step(replica, 0, 0)
            even_step(replica, 1, 0)
        finally:
            over.set()

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
    with pytest.raises(SpecError, match=f"{factory}: a server updates ranges .* tensor boundaries"):
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
        ("ps:servers=0", "servers=0 is not valid: it must be from 1 to 64"),
        ("ps:bound=2", "bound=2 cannot be combined with mode=sync"),
        ("ps:mode=async,bound=2", "bound=2 cannot be combined with mode=async"),
        ("ps:mode=stale,bound=-1", "bound=-1 is not valid: it must be at least 0"),
        ("ps:mode=slow", "'slow' is not a known value.*Valid: sync, async, stale"),
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
    with pytest.raises(SpecError, match="cores for 1 servers do not match servers=2"):
        ParameterServerStrategy(ParameterServer(servers=2), site=ServerSite(cores=[[0]]))


def test_a_parameter_without_a_gradient_is_named() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Linear(5, 3).double()
            self.forgotten = nn.Linear(5, 3).double()

        def forward(self, inputs: Tensor) -> Tensor:
            return torch.as_tensor(self.used(inputs))

    with pytest.raises(ReplicaMisuse, match=r"forgotten\.weight, forgotten\.bias.*requires_grad_\(False\)"):
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

    with pytest.raises(ReplicaMisuse, match="pass share="):
        with_replicas(2, ParameterServer(), SGD, work)

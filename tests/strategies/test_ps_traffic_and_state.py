"""Parameter servers: what is sent, what is reported and what is saved."""

import pytest
import torch
from strategies.ps_training import (
    ADAM,
    SGD,
    assert_resumes,
    even_step,
    make_model,
    recipe_with_clipping,
    weights,
    with_replicas,
)
from torch import Tensor, nn

from paceline import grammar
from paceline.errors import CheckpointError
from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import NoEvents, Replica, State
from paceline.strategies.group import Group, run_in_process
from paceline.strategies.ps.flat import FlatModel
from paceline.strategies.ps.launch import ServerSite
from paceline.strategies.ps.server import ServerThread
from paceline.strategies.ps.strategy import ParameterServerStrategy
from paceline.traffic.base import Payload, by_pattern
from paceline.traffic.catalogue import resolve
from paceline.traffic.ps import ParameterServer, ranges

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
    claims = resolve(f"ps:mode={mode},servers={servers}").transfers(payload, workers)
    claimed: dict[str, int] = {}
    for per, times in (("step", steps), ("settle", settles)):
        for pattern, size in by_pattern(claims, per).items():
            claimed[pattern] = claimed.get(pattern, 0) + times * size
    assert claimed["to_server"] == steps * sum(p.nbytes for p in model.parameters())
    for counted in with_replicas(workers, options, SGD, work, model=normed):
        assert counted == claimed


def test_every_server_is_a_bucket_that_becomes_ready_starts_and_ends() -> None:
    seen: list[tuple[str, int]] = []
    spent: dict[str, float] = {}

    class Listener(NoEvents):
        def ready(self, bucket: int, payload_bytes: int) -> None:
            assert payload_bytes == [33 * 8, 33 * 8][bucket]
            seen.append(("ready", bucket))

        def start(self, bucket: int) -> None:
            seen.append(("start", bucket))

        def end(self, bucket: int) -> None:
            seen.append(("end", bucket))

        def spend(self, what: str, seconds: float) -> None:
            spent[what] = seconds

    def work(group: Group) -> None:
        strategy = ParameterServerStrategy(
            ParameterServer(servers=2), site=ServerSite(launch=ServerThread, timeout_seconds=10)
        )
        replica = strategy.replicate(make_model(), SGD, group, Listener())
        even_step(replica, 0, 0)
        busy = replica.report().server_utilisation_percent
        assert busy is not None
        assert all(share is not None and share > 0 for share in busy)
        replica.close()

    run_in_process(1, work)
    assert seen[:4] == [("ready", 0), ("start", 0), ("ready", 1), ("start", 1)]
    assert sorted(seen[4:]) == [("end", 0), ("end", 1)]
    assert spent["exchange"] > 0  # the way of the parameters back
    assert spent["held"] == 0


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
    assert not torch.equal(first[0][0], second[0][0])
    for kept, own, other in zip(first[0], first[1], second[1], strict=True):
        assert torch.equal(kept, own)
        assert torch.equal(kept, other)


# state


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
    (state, then), _ = with_replicas(2, options, ADAM, half)
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

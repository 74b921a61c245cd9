"""All-reduce over real processes: who waits where, what is reported, what is sent, and what is refused."""

import functools
import time
from collections import Counter
from typing import Any

import pytest
import torch
from processes import run_workers
from torch import Tensor, nn

from paceline.errors import ReplicaMisuse, SpecError
from paceline.recipe import OptimizerRecipe
from paceline.strategies import catalogue
from paceline.strategies.base import Events, NoEvents, Replica, Share
from paceline.strategies.group import Group, run_in_process
from paceline.traffic.base import Payload, by_pattern
from paceline.traffic.catalogue import resolve

RECIPE = OptimizerRecipe(factory="torch.optim:SGD", options={"lr": 0.01})
LATE_SECONDS = 0.3
STEPS = 3
OPTIONS = (
    "allreduce",
    "allreduce:bucket=1KB",
    "allreduce:small=300B",
    "allreduce:small=300B,overlap=off",
    "allreduce:packs=3",
    "bf16+allreduce:packs=3",
    "allreduce:overlap=off,bucket=1KB",
    "fp16+allreduce:reduce=sum,bucket=1KB",
    "bf16+allreduce",
    "bf16+allreduce:small=300B",
)


class Crossing(nn.Module):
    """Layers of unlike sizes, used in the reverse of their registration: gradients do not come in DDP's order."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(7, 1)
        self.norm = nn.BatchNorm1d(7)
        self.middle = nn.Linear(31, 7)
        self.first = nn.Linear(11, 31)

    def forward(self, x: Tensor, skip: str = "") -> Tensor:
        x = self.first(x).tanh()
        x = self.norm(self.middle(x))
        return x.sum() if skip == "last" else self.last(x).sum()


class Recorded(NoEvents):
    """Everything that was reported, in order."""

    def __init__(self, *, watching: bool = False) -> None:
        self.watching = watching
        self.log: list[tuple[Any, ...]] = []

    def ready(self, bucket: int, payload_bytes: int) -> None:
        self.log.append(("ready", bucket, payload_bytes))

    def start(self, bucket: int) -> None:
        self.log.append(("start", bucket))

    def end(self, bucket: int) -> None:
        self.log.append(("end", bucket))


def replica_of(text: str, group: Group, events: Events | None = None) -> Replica:
    torch.manual_seed(0)
    return catalogue.build(text).replicate(Crossing(), RECIPE, group, events or NoEvents())


def inputs(rank: int) -> Tensor:
    return torch.linspace(-1, 1 + rank, 44).reshape(4, 11)


def step(replica: Replica, group: Group) -> None:
    replica.backward(replica.model(inputs(group.rank)))
    replica.exchange(4)
    replica.update(0.01)


# Who waits where


def durations_with_a_late_peer(group: Group, options: tuple[str, ...]) -> dict[str, list[tuple[float, float]]]:
    """Seconds of backward and of exchange, with rank 1 held up in the middle of its backward."""
    measured = {}
    for text in options:
        replica = replica_of(text, group)
        step(replica, group)
        pairs = []
        for _ in range(2):
            loss = replica.model(inputs(group.rank))
            if group.rank == 1:
                loss.register_hook(lambda gradient: time.sleep(LATE_SECONDS))
            group.barrier()
            begun = time.perf_counter()
            replica.backward(loss)
            arrived = time.perf_counter()
            replica.exchange(4)
            pairs.append((arrived - begun, time.perf_counter() - arrived))
            replica.update(0.01)
        replica.close()
        measured[text] = pairs
    return measured


WAITING = ("allreduce", "allreduce:bucket=1KB", "allreduce:packs=2", "bf16+allreduce:overlap=off")


@functools.cache
def _late() -> list[dict[str, list[tuple[float, float]]]]:
    return run_workers(2, durations_with_a_late_peer, WAITING)


@pytest.mark.parametrize("options", WAITING)
def test_backward_does_not_wait_for_a_late_peer_and_exchange_does(options: str) -> None:
    on_time, late = (worker[options] for worker in _late())
    assert min(backward for backward, _ in on_time) < LATE_SECONDS / 2
    assert max(exchange for _, exchange in on_time) >= LATE_SECONDS * 2 / 3
    assert all(backward >= LATE_SECONDS for backward, _ in late)
    assert min(exchange for _, exchange in late) < LATE_SECONDS / 2


# What is reported and sent


def trained(group: Group, text: str) -> dict[str, Any]:
    """The reports of some steps, with a mark where backward ended, and the bytes of steps and one settle."""
    events = Recorded()
    replica = replica_of(text, group, events)
    silent = not events.log
    steps = []
    for _ in range(STEPS):
        events.log = []
        replica.backward(replica.model(inputs(group.rank)))
        events.log.append(("backward over",))
        replica.exchange(4)
        replica.update(0.01)
        steps.append(events.log)
    replica.settle()
    tally = dict(group.tally)
    replica.close()
    return {"steps": steps, "tally": tally, "silent at start-up": silent}


def layouts(group: Group) -> dict[str, Any]:
    """Bucket sizes of a replica in its first and eleventh step, and of a fresh one that goes on from its state."""
    events, fresh_events = Recorded(), Recorded()
    replica = replica_of("allreduce:bucket=100B", group, events)
    sizes = []
    for _ in range(11):
        events.log = []
        step(replica, group)
        sizes.append([entry[2] for entry in events.log if entry[0] == "ready"])
    fresh = replica_of("allreduce:bucket=100B", group, fresh_events)
    fresh.load(replica.state())
    step(fresh, group)
    step(replica, group)
    weights = [torch.cat([p.detach().flatten() for p in r.model.parameters()]) for r in (replica, fresh)]
    return {
        "sizes": sizes,
        "fresh": [entry[2] for entry in fresh_events.log if entry[0] == "ready"],
        "equal": torch.equal(*weights),
    }


def accumulated(group: Group) -> list[tuple[int, int]]:
    """Bytes sent and events reported after each of three losses of one update."""
    events = Recorded()
    replica = replica_of("allreduce:bucket=1KB", group, events)
    seen = []
    for last in (False, False, True):
        replica.backward(replica.model(inputs(group.rank)), share=Share(4, 12, 24), last=last)
        seen.append((group.tally["ring"], len(events.log)))
    replica.exchange(12)
    replica.update(0.01)
    return seen


def refusals(group: Group) -> dict[str, tuple[int, str]]:
    """In which step a parameter without gradient was refused, and the words."""
    cases = {"one loss": [["last"]], "first of two": [["last", ""]], "last of two": [["", "last"]]}
    refused = {}
    for name, bad_step in cases.items():
        replica = replica_of("allreduce", group)
        plan = [["" for _ in bad_step[0]]] * 2 + bad_step
        for number, losses in enumerate(plan):
            try:
                for index, skip in enumerate(losses):
                    share = Share(4, 4 * len(losses), 8 * len(losses))
                    loss = replica.model(inputs(group.rank), skip=skip)
                    replica.backward(loss, share=share, last=index == len(losses) - 1)
                replica.exchange(4 * len(losses))
                replica.update(0.01)
            except ReplicaMisuse as error:
                refused[name] = (number, str(error))
                break
    return refused


def watched(group: Group) -> list[tuple[Any, ...]]:
    """A step that is looked at closely: some time passes between backward and exchange."""
    events = Recorded(watching=True)
    replica = replica_of("allreduce:bucket=1KB", group, events)
    replica.backward(replica.model(torch.ones(4, 11)))
    time.sleep(0.3)
    events.log.append(("exchange asked for",))
    replica.exchange(4)
    replica.update(0.01)
    replica.close()
    return events.log


def everything(group: Group) -> dict[str, Any]:
    return {
        "watched": watched(group),
        **{text: trained(group, text) for text in OPTIONS},
        "layouts": layouts(group),
        "accumulated": accumulated(group),
        "refusals": refusals(group),
    }


@functools.cache
def _workers() -> list[dict[str, Any]]:
    return run_workers(2, everything)


def gradient_bytes() -> tuple[int, ...]:
    return tuple(p.nbytes for p in Crossing().parameters())


@pytest.mark.parametrize("options", OPTIONS)
def test_every_bucket_reports_that_it_is_ready_starts_and_ends(options: str) -> None:
    for worker in _workers():
        for log in worker[options]["steps"]:
            buckets = [entry[1] for entry in log if entry[0] == "ready"]
            assert buckets == list(range(len(buckets)))
            pieces = 3 if "packs=3" in options else 1
            for bucket in buckets:
                told = [entry[0] for entry in log if entry[1:2] == (bucket,)]
                assert told == ["ready", "start", *["end"] * pieces]  # the last word counts
            assert sum(entry[2] for entry in log if entry[0] == "ready") == sum(gradient_bytes())
        assert worker[options]["silent at start-up"]
    first, second = (worker[options]["steps"] for worker in _workers())
    assert first == second


@pytest.mark.parametrize("options", OPTIONS)
def test_buckets_start_during_backward_where_they_overlap(options: str) -> None:
    for log in _workers()[0][options]["steps"]:
        over = log.index(("backward over",))
        starts = [i for i, entry in enumerate(log) if entry[0] == "start"]
        assert all(i < over for i in starts) == resolve(options).overlaps
        assert all(i < over for i in starts) or all(i > over for i in starts)
        assert all(i > over for i, entry in enumerate(log) if entry[0] == "end")


def test_a_watched_bucket_ends_when_it_does_not_when_someone_looks() -> None:
    for worker in _workers():
        log = worker["watched"]
        ends = [i for i, entry in enumerate(log) if entry[0] == "end"]
        assert len(ends) > 1
        assert all(i < log.index(("exchange asked for",)) for i in ends)


def test_with_several_buckets_the_first_leaves_before_the_last_is_ready() -> None:
    for log in _workers()[0]["allreduce:bucket=1KB"]["steps"]:
        last_ready = max(i for i, entry in enumerate(log) if entry[0] == "ready")
        assert log.index(("start", 0)) < last_ready


@pytest.mark.parametrize("options", OPTIONS)
def test_bytes_counted_are_bytes_claimed(options: str) -> None:
    buffers = sum(b.nbytes for b in Crossing().buffers())
    transfers = resolve(options).transfers(Payload(gradient_bytes(), buffers), workers=2)
    claimed = Counter({k: STEPS * v for k, v in by_pattern(transfers, "step").items()})
    claimed.update(by_pattern(transfers, "settle"))
    assert claimed["ring"] > 0
    assert claimed["broadcast"] == buffers > 0
    for worker in _workers():
        assert worker[options]["tally"] == claimed


def test_the_layout_of_buckets_is_fixed_before_the_first_step() -> None:
    for worker in _workers():
        sizes = worker["layouts"]["sizes"]
        assert len(sizes[0]) > 2
        assert all(later == sizes[0] for later in sizes)
        assert worker["layouts"]["fresh"] == sizes[0]


def test_a_replica_that_goes_on_from_a_state_stays_equal_to_the_bit() -> None:
    assert all(worker["layouts"]["equal"] for worker in _workers())


def test_gradients_that_accumulate_are_not_sent_before_the_last_loss() -> None:
    for worker in _workers():
        first, second, third = worker["accumulated"]
        assert first == second == (0, 0)
        assert third[0] == sum(gradient_bytes())


@pytest.mark.parametrize("case", ["one loss", "first of two", "last of two"])
def test_a_parameter_without_gradient_is_named_in_the_step_it_happens(case: str) -> None:
    for worker in _workers():
        number, words = worker["refusals"][case]
        assert number == 2
        assert words.startswith("No gradient reached last.weight, last.bias: freeze such parameters")


def test_workers_that_are_threads_are_refused() -> None:
    with pytest.raises(SpecError, match="needs worker processes"):
        run_in_process(1, lambda group: replica_of("allreduce", group))

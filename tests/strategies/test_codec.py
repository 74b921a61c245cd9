"""Codecs away from the engine: rounds between threads, what servers decode, and what a carrier agrees on."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from strategies.ps_training import SGD, config
from torch import Tensor

from paceline.strategies.carrier import AllReduceCarrier
from paceline.strategies.codec import BucketViews, CodecFactory, Gather, Sum
from paceline.strategies.group import Group, run_in_process
from paceline.strategies.ps.server import Server
from paceline.strategies.ps.wire import Message
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.base import Payload, by_pattern
from paceline.traffic.catalogue import MEMBERS, resolve

SHAPES = ((3, 5), (7,), (4, 2, 2), ())


OF_THE_CATALOGUE = [name for name, member in MEMBERS.items() if member.kind == "codec"]
OF_ONE_ROUND = [name for name in OF_THE_CATALOGUE if len(MEMBERS[name].claim.patterns) == 1]


def tensors(rank: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(rank)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def payload() -> Payload:
    return Payload(tuple(t.nbytes for t in tensors(0)), 0, shapes=SHAPES)


@pytest.mark.parametrize("name", [name for name, member in MEMBERS.items() if member.kind == "codec"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4)])
def test_a_codec_sends_the_rounds_and_bytes_that_it_claims(name: str, shape: tuple[int, ...]) -> None:
    codec = CodecFactory.of_text(name)()
    bucket = BucketViews("0", [torch.randn(shape).view(-1), torch.randn(3)])
    claim = resolve(f"{name}+allreduce:bucket=1GB").transfers(Payload((bucket.elements * 4,), 0), 2)
    sent: Counter[str] = Counter()
    rounds = codec.code(bucket)
    result: Tensor | list[Tensor] | None = None
    while True:
        try:
            following = rounds.send(result)
        except StopIteration:
            break
        match following:
            case Sum(tensor):
                sent["ring"] += tensor.nbytes
                result = tensor
            case Gather(tensor):
                sent["gather"] += tensor.nbytes
                result = [tensor]
    assert sent == by_pattern(claim, "step")


def test_several_pieces_of_memory_are_read_and_written_as_one() -> None:
    first, second = torch.arange(3.0), torch.arange(2.0)
    bucket = BucketViews("0", [first, second])
    assert bucket.flat().tolist() == [0, 1, 2, 0, 1]
    bucket.write(torch.tensor([5.0, 6, 7, 8, 9], dtype=torch.float64))
    assert (first.tolist(), second.tolist()) == ([5, 6, 7], [8, 9])
    alone = BucketViews("0", [first])
    assert alone.flat() is first, "one piece is not copied"


@pytest.mark.parametrize("grouping", ["", "bucket=30B", "packs=3", "packs=200", "small=40B", "reduce=sum"])
@pytest.mark.parametrize("codec", [None, *OF_THE_CATALOGUE, "toys:SIGNS", "toys:LOWRANK:rank=8"])
def test_a_carrier_agrees_in_the_buckets_and_bytes_that_the_claim_declares(codec: str | None, grouping: str) -> None:
    how = f"allreduce:{grouping}" if grouping else "allreduce"
    strategy = resolve(how if codec is None else f"{codec}+{how}")
    assert isinstance(strategy.transport, AllReduce)
    options, factory = strategy.transport, None if codec is None else CodecFactory.of_text(codec)

    def work(group: Group) -> tuple[list[Tensor], Counter[str]]:
        own = tensors(group.rank)
        AllReduceCarrier(options, factory, group, own).agree(own)
        return own, group.tally

    results: Sequence[tuple[list[Tensor], Counter[str]]] = run_in_process(3, work)  # type: ignore[assignment]
    parts = 1 if "sum" in grouping else 3
    truth = [sum(each) / parts for each in zip(*(tensors(rank) for rank in range(3)), strict=True)]
    for own, tally in results:
        assert tally == by_pattern(strategy.transfers(payload(), 3), "step")
        assert all(torch.equal(a, b) for a, b in zip(own, results[0][0], strict=True)), "everybody has the same"
        if codec != "toys:SIGNS":  # which is right only over many steps
            for value, exact in zip(own, truth, strict=True):
                torch.testing.assert_close(value, exact, rtol=0, atol=0.05 if codec in OF_THE_CATALOGUE else 1e-5)


# On servers


def pushed(coded: dict[str, Tensor], codec: str | None) -> str:
    """What a server answers to a push."""
    server = Server(dataclasses.replace(config(recipe=SGD), codec=codec))
    ((_, answer),) = server.answer(0, Message("push", tensors=coded))
    return str(answer.fields.get("reason", answer.kind))


def test_a_server_decodes_what_a_worker_pushes() -> None:
    gradient = torch.tensor([1.0, -2, 3, -4])
    for text in (*OF_ONE_ROUND, "toys:SIGNS"):
        codec = CodecFactory.of_text(text)()
        coded = codec.encode(BucketViews("0", [gradient]))  # type: ignore[attr-defined]
        assert pushed({"float32": coded}, text) == "go"
    assert pushed({"float32": gradient}, None) == "go"


@pytest.mark.parametrize(
    "coded",
    [{}, {"float32": torch.zeros(3)}, {"float64": torch.zeros(4)}, {"float32": torch.zeros(0)}],
    ids=["nothing", "too short", "another dtype", "empty"],
)
@pytest.mark.parametrize("codec", [*OF_ONE_ROUND, "toys:SIGNS"])
def test_what_cannot_be_decoded_is_refused_and_the_server_goes_on(codec: str, coded: dict[str, Tensor]) -> None:
    assert pushed(coded, codec) not in ("go", "")

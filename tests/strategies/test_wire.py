"""Messages between workers and parameter servers."""

import json
import warnings
from collections.abc import Callable

import pytest
import torch
import zmq

from paceline.strategies.ps.wire import Malformed, Message, decode, encode, send


def frames_of(*parts: bytes | memoryview) -> list[zmq.Frame]:
    return [zmq.Frame(bytearray(part)) for part in parts]


def through(message: Message) -> Message:
    return decode(frames_of(*encode(message)))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64]
)
def test_a_tensor_arrives_bit_for_bit(dtype: torch.dtype) -> None:
    sent = torch.arange(-3, 9).view(3, 4).to(dtype)
    got = through(Message("x", tensors={"a": sent})).tensors["a"]
    assert got.dtype == dtype
    assert got.shape == (3, 4)
    assert torch.equal(got, sent)


def test_scalars_empty_and_strided_tensors_arrive() -> None:
    tensors = {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 3), "strided": torch.arange(6.0).view(2, 3).t()}
    got = through(Message("x", tensors=tensors)).tensors
    assert list(got) == list(tensors)
    assert all(torch.equal(got[name], tensor) for name, tensor in tensors.items())


def test_plain_values_arrive() -> None:
    fields = {"lr": 0.1, "count": 3, "none": None, "nested": {"betas": [0.9, 0.999]}}
    assert through(Message("apply", fields)) == Message("apply", fields)


def test_a_contiguous_tensor_is_not_copied_to_be_sent() -> None:
    tensor = torch.zeros(8)
    _, frame = encode(Message("x", tensors={"a": tensor}))
    tensor.fill_(1)
    assert torch.equal(torch.frombuffer(frame, dtype=torch.float32), torch.ones(8))


def test_what_came_through_a_socket_is_a_writable_view_without_a_warning() -> None:
    with zmq.Context() as context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        one.bind("inproc://wire")
        other.connect("inproc://wire")
        send(other, Message("x", tensors={"a": torch.arange(50_000)}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = decode(one.recv_multipart(copy=False)).tensors["a"]
        got.add_(1)
        assert torch.equal(got, torch.arange(1, 50_001))


def header(**changes: object) -> bytes:
    return json.dumps({"kind": "x", "fields": {}, "tensors": [["a", "float32", [2]]], **changes}).encode()


@pytest.mark.parametrize(
    "parts",
    [
        list,
        lambda: [b""],
        lambda: [b"\x80\x04garbage"],
        lambda: [b"[" * 100_000],
        lambda: [b"[]"],
        lambda: [b"{}"],
        lambda: [header(kind=1), bytes(8)],
        lambda: [header(fields=[]), bytes(8)],
        lambda: [header()],
        lambda: [header(), bytes(8), bytes(8)],
        lambda: [header(), bytes(7)],
        lambda: [header(tensors=[["a", "object", [2]]]), bytes(8)],
        lambda: [header(tensors=[["a", ["float32"], [2]]]), bytes(8)],
        lambda: [header(tensors=[["a", "float32", [-1, -2]]]), bytes(8)],
        lambda: [header(tensors=[["a", "float32", [True, 2]]]), bytes(8)],
        lambda: [header(tensors=[["a", "float32", [10**30]]]), bytes(8)],
        lambda: [header(tensors=[["a", "float32"]]), bytes(8)],
        lambda: [header(tensors=["a"]), bytes(8)],
    ],
)
def test_frames_that_are_no_message_are_malformed(parts: Callable[[], list[bytes]]) -> None:
    with pytest.raises(Malformed):
        decode(frames_of(*parts()))

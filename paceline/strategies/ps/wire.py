"""Messages between workers and parameter servers: a JSON header, then one raw frame per tensor; never pickle."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import zmq
from torch import Tensor

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
}

Parts: TypeAlias = list[bytes | memoryview]


class Malformed(ValueError):
    """Frames that are not a message; the receiver drops or refuses them, and continues."""


@dataclass(frozen=True)
class Message:
    """A message: its kind, plain values and named tensors."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.float32` → `float32`: how a dtype is written on the wire."""
    return str(dtype).removeprefix("torch.")


def dtype_called(name: object) -> torch.dtype:
    """The inverse of `dtype_name`."""
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise Malformed(f"there is no dtype {name!r}")
    return dtype


def encode(message: Message) -> Parts:
    """Frames to send. Those of CPU tensors share the tensors' memory: do not change it before the answer arrives."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in message.tensors.items()}
    listed = [[name, dtype_name(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()]
    header = {"kind": message.kind, "fields": dict(message.fields), "tensors": listed}
    return [json.dumps(header).encode(), *(_memory(tensor) for tensor in tensors.values())]


def decode(frames: Sequence[zmq.Frame]) -> Message:
    """The message in these frames, checked; its tensors are views of the frames, not copies."""
    header = _header(frames)
    kind, fields, listed = header.get("kind"), header.get("fields"), header.get("tensors")
    if not isinstance(kind, str) or not isinstance(fields, dict) or not isinstance(listed, list):
        raise Malformed("the header has no kind, fields or tensors")
    if len(listed) != len(frames) - 1:
        raise Malformed(f"{len(listed)} tensors announced, {len(frames) - 1} frames received")
    tensors: dict[str, Tensor] = {}
    for entry, frame in zip(listed, frames[1:], strict=True):
        if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str):
            raise Malformed(f"{entry!r} does not describe a tensor")
        tensors[entry[0]] = _tensor(dtype_called(entry[1]), entry[2], frame.buffer)
    return Message(kind, fields, tensors)


def send(socket: "zmq.Socket[bytes]", message: Message, *, to: bytes | None = None) -> None:
    """Send without copying; `to` is the peer of a ROUTER."""
    address = [] if to is None else [to]
    socket.send_multipart([*address, *encode(message)], copy=False)


def _header(frames: Sequence[zmq.Frame]) -> dict[str, Any]:
    if not frames:
        raise Malformed("there are no frames")
    try:
        header = json.loads(frames[0].bytes)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise Malformed("the header is not an object")
    return header


def _tensor(dtype: torch.dtype, shape: object, memory: memoryview) -> Tensor:
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise Malformed(f"{shape!r} is not a shape")
    if math.prod(shape) * dtype.itemsize != memory.nbytes:
        raise Malformed(f"{memory.nbytes} bytes are not a {dtype_name(dtype)} tensor of shape {shape}")
    if memory.nbytes == 0:  # torch.frombuffer refuses it
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def _memory(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor; through uint8 because numpy has no bfloat16."""
    return tensor.view(-1).view(torch.uint8).numpy().data

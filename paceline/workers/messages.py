"""Messages between a worker and the process that supervises it: types in Python, JSON on the connection."""

import json
from typing import Literal

import msgspec

from paceline.record_parts import Validation
from paceline.workers.report import WorkerReport

Order = Literal["stop", "all precise", "locate"]
"""Orders of the supervising process: stop cleanly, end a measurement, or report where the worker is."""


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """One message of a worker; its class is written as `kind`."""


class Ready(WorkerMessage, frozen=True, kw_only=True):
    """The worker is about to train."""

    step: int
    total_steps: int | None


class Advanced(WorkerMessage, frozen=True, kw_only=True):
    """The worker has reached this step; `samples` and `loss` are those of training."""

    step: int
    phase: Literal["training", "validation"]
    samples: int = 0
    loss: float | None = None


class Validated(WorkerMessage, frozen=True, kw_only=True):
    """A validation is done."""

    validation: Validation


class Waiting(WorkerMessage, frozen=True, kw_only=True):
    """The worker has done its part, and waits for the others."""


class Precise(WorkerMessage, frozen=True, kw_only=True):
    """The worker has measured its throughput as precisely as the user asked for."""


class Located(WorkerMessage, frozen=True, kw_only=True):
    """Where the worker is, in answer to the order `locate`."""

    phase: str
    step: int


class Failed(WorkerMessage, frozen=True, kw_only=True):
    """The worker ends with an error."""

    error: str
    """The name of its class."""

    message: str
    step: int = 0


class Finished(WorkerMessage, frozen=True, kw_only=True):
    """The worker has finished its run."""

    report: WorkerReport


AnyMessage = Ready | Advanced | Validated | Waiting | Precise | Located | Failed | Finished


def encode(message: AnyMessage) -> bytes:
    """The message as JSON. Python's own encoder keeps NaN; msgspec's loses it."""
    return json.dumps(msgspec.to_builtins(message)).encode()


def decode(content: bytes) -> AnyMessage:
    """The inverse of `encode`."""
    message: AnyMessage = msgspec.convert(json.loads(content), AnyMessage)
    return message


def encode_order(order: Order) -> bytes:
    """An order as JSON."""
    return json.dumps(order).encode()


def decode_order(content: bytes) -> Order:
    """The inverse of `encode_order`."""
    order: Order = msgspec.convert(json.loads(content), Order)
    return order

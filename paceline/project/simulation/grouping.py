"""From a profile's gradients to the messages that a strategy claims for them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.traffic.base import MessageClaim, Payload
from paceline.traffic.resolved import ResolvedStrategy

_USUAL_ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Gradient:
    """One tensor's: its bytes, how much of backward's own work is done when it is ready, and its shape if known."""

    payload_bytes: int
    ready_seconds: float
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TimedMessage:
    """A message that leaves once so much of backward's own work is done and all messages before it have left."""

    claim: MessageClaim
    ready_seconds: float


def messages_of(
    strategy: ResolvedStrategy, gradients: Sequence[Gradient], backward_seconds: float, workers: int
) -> tuple[TimedMessage, ...]:
    """The messages of an agreement in the order in which they leave; those that do not overlap leave after backward."""
    reached, leaving = 0.0, []
    for claim in strategy.messages(payload_of(gradients), workers):
        ready = max(gradients[tensor].ready_seconds for tensor in claim.bucket.tensors)
        # Buckets are handed over in order: one that is ready early waits for those before it.
        reached = max(reached, ready) if claim.overlaps else backward_seconds
        leaving.append(TimedMessage(claim, reached))
    return tuple(leaving)


def payload_of(gradients: Sequence[Gradient]) -> Payload:
    """What a model with these gradients has to exchange; records of earlier versions do not know shapes."""
    sizes = tuple(g.payload_bytes for g in gradients)
    shapes = tuple(g.shape for g in gradients if g.shape is not None)
    elements = sum(math.prod(shape) for shape in shapes)
    if len(shapes) < len(sizes) or not elements:
        return Payload(sizes, 0, _USUAL_ELEMENT_BYTES)
    return Payload(sizes, 0, sum(sizes) // elements, shapes)

"""From a profile's gradients to the messages that a strategy declares for them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.traffic.base import MessageClaim, Payload
from paceline.traffic.resolved import ResolvedStrategy

_USUAL_ELEMENT_BYTES = 4


@dataclass(frozen=True)
class Gradient:
    """A gradient: its bytes, how much of backward's own work is done when it is ready, and its shape if known."""

    payload_bytes: int
    ready_seconds: float
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class TimedMessage:
    """A message that is sent once this much of backward's own work is done and all earlier messages were sent."""

    claim: MessageClaim
    ready_seconds: float


def messages_of(
    strategy: ResolvedStrategy, gradients: Sequence[Gradient], backward_seconds: float, workers: int
) -> tuple[TimedMessage, ...]:
    """The messages of a strategy in sending order; those that do not overlap are sent after backward."""
    reached, leaving = 0.0, []
    for claim in strategy.messages(payload_of(gradients), workers):
        ready = max(gradients[tensor].ready_seconds for tensor in claim.bucket.tensors)
        # Buckets are sent in order: one that is ready early waits for those before it.
        reached = max(reached, ready) if claim.overlaps else backward_seconds
        leaving.append(TimedMessage(claim, reached))
    return tuple(leaving)


def payload_of(gradients: Sequence[Gradient]) -> Payload:
    """The payload of a model with these gradients; records of earlier versions have no shapes."""
    sizes = tuple(g.payload_bytes for g in gradients)
    shapes = tuple(g.shape for g in gradients if g.shape is not None)
    elements = sum(math.prod(shape) for shape in shapes)
    if len(shapes) < len(sizes) or not elements:
        return Payload(sizes, 0, _USUAL_ELEMENT_BYTES)
    return Payload(sizes, 0, sum(sizes) // elements, shapes)

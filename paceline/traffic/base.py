"""Declared traffic of a strategy as transfers, which are checked against the bytes that the group counted."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Pattern: TypeAlias = Literal["ring", "gather", "broadcast", "to_server", "from_server"]
RoundPattern: TypeAlias = Literal["ring", "gather"]
"""How one round of a codec moves between workers: summed in transit, or gathered by all workers."""


@dataclass(frozen=True)
class Transfer:
    """One payload, its communication pattern, and how often it is sent."""

    pattern: Pattern
    payload_bytes: int
    per: Literal["step", "settle"] = "step"
    every: int = 1
    """Steps from one such transfer to the next."""

    def sent_bytes(self, workers: int) -> float:
        """Bytes that one worker sends, on average over the workers and over the steps between two transfers.

        ring: 2(n−1)/n·S. gather: every worker's S goes to n−1 others, (n−1)·S.
        broadcast: n−1 of n workers must get S from someone, (n−1)/n·S.
        to_server: S. from_server: a worker only receives.
        """
        factor = {
            "ring": 2 * (workers - 1) / workers,
            "gather": workers - 1,
            "broadcast": (workers - 1) / workers,
            "to_server": 1.0,
            "from_server": 0.0,
        }[self.pattern]
        return factor * self.payload_bytes / self.every


@dataclass(frozen=True)
class Payload:
    """The gradients that a model has to exchange."""

    gradient_bytes: tuple[int, ...]
    """Elements of each trained parameter tensor, in order of registration."""

    buffer_bytes: int
    element_bytes: int = 4
    """Bytes of one gradient element."""

    shapes: tuple[tuple[int, ...], ...] | None = None
    """Shapes of the same tensors; None if unknown: then each is treated as a vector."""

    def shape(self, tensor: int) -> tuple[int, ...]:
        """The shape of one tensor, by its number in order of registration."""
        return (self.gradient_bytes[tensor] // self.element_bytes,) if self.shapes is None else self.shapes[tensor]

    @property
    def elements(self) -> int:
        """The number of elements of all gradients."""
        return sum(math.prod(self.shape(tensor)) for tensor in range(len(self.gradient_bytes)))


@dataclass(frozen=True)
class BucketShape:
    """Gradients of one message, as a codec sees them: tensor by tensor, or as one flat piece."""

    payload_bytes: int
    shapes: tuple[tuple[int, ...], ...]
    tensors: tuple[int, ...] = ()
    """Indices of its tensors in order of registration; for a flat piece, all tensors that it may hold parts of."""

    side_by_side: bool = False
    """Whether several pieces of memory have to be copied next to one another first."""

    @property
    def elements(self) -> int:
        """The number of elements of all its tensors."""
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class MessageClaim:
    """One message of a step: its gradients, what is sent of them, and the work on them."""

    bucket: BucketShape
    rounds: tuple[Transfer, ...]
    """Rounds in sequence: each needs the result of the previous one."""

    passes: float
    """Memory passes over the gradients to move them into the message and back, including encoding."""

    overlaps: bool
    """Whether it is sent as soon as its gradients are ready; otherwise after backward."""


def settled_buffers(payload: Payload, workers: int) -> tuple[Transfer, ...]:
    """At a settle, all workers take over the buffers of rank 0."""
    if payload.buffer_bytes and workers > 1:
        return (Transfer("broadcast", payload.buffer_bytes, per="settle"),)
    return ()


def by_pattern(transfers: Iterable[Transfer], per: str) -> dict[str, int]:
    """Payload bytes per pattern of the transfers made once per `per`; a mean if they are not made every time."""
    totals: dict[str, int] = {}
    for transfer in transfers:
        if transfer.per == per:
            totals[transfer.pattern] = totals.get(transfer.pattern, 0) + round(transfer.payload_bytes / transfer.every)
    return totals


def claimed_bytes(transfers: Iterable[Transfer], *, first_step: int, steps: int, settles: int) -> dict[str, int]:
    """Payload bytes per pattern of this many steps, after `first_step` earlier ones, and of the settles.

    A transfer of every H steps is made after the steps H, 2 H, … of the whole training, whenever it was resumed.
    """
    totals: Counter[str] = Counter()
    for transfer in transfers:
        steps_made = (first_step + steps) // transfer.every - first_step // transfer.every
        totals[transfer.pattern] += transfer.payload_bytes * (steps_made if transfer.per == "step" else settles)
    return dict(+totals)


def added_up(transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
    """The same transfers with equal ones merged, in order of first appearance."""
    totals: dict[tuple[Pattern, Literal["step", "settle"], int], int] = {}
    for transfer in transfers:
        alike = (transfer.pattern, transfer.per, transfer.every)
        totals[alike] = totals.get(alike, 0) + transfer.payload_bytes
    return tuple(Transfer(pattern, size, per, every) for (pattern, per, every), size in totals.items())

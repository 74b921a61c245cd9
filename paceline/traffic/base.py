"""What a strategy sends, as transfers: a claim, checked against what the group counted."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Pattern: TypeAlias = Literal["ring", "gather", "broadcast", "to_server", "from_server"]
RoundPattern: TypeAlias = Literal["ring", "gather"]
"""How one round of a codec moves between workers: summed on the way, or gathered by everybody."""


@dataclass(frozen=True)
class Transfer:
    """One payload, the pattern it moves in, and how often."""

    pattern: Pattern
    payload_bytes: int
    per: Literal["step", "settle"] = "step"
    every: int = 1
    """Steps from one such transfer to the next."""

    def sent_bytes(self, workers: int) -> float:
        """Bytes that one worker sends, on average over the workers and over the steps between two transfers.

        ring: 2(n−1)/n·S. gather: everybody's S goes round to n−1 others, (n−1)·S.
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
    """What a model has to exchange."""

    gradient_bytes: tuple[int, ...]
    """Per parameter tensor that is trained, in order of registration."""

    buffer_bytes: int
    element_bytes: int = 4
    """Bytes of one gradient element."""

    shapes: tuple[tuple[int, ...], ...] | None = None
    """Of the same tensors; None: not known, and each is taken as a vector."""

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Of one tensor, by its number in order of registration."""
        return (self.gradient_bytes[tensor] // self.element_bytes,) if self.shapes is None else self.shapes[tensor]

    @property
    def elements(self) -> int:
        """Of all gradients."""
        return sum(math.prod(self.shape(tensor)) for tensor in range(len(self.gradient_bytes)))


@dataclass(frozen=True)
class BucketShape:
    """Gradients that leave as one message, as a codec sees them: tensor by tensor, or one flat piece."""

    payload_bytes: int
    shapes: tuple[tuple[int, ...], ...]
    tensors: tuple[int, ...] = ()
    """Their numbers in order of registration; of a flat piece all those that it may hold parts of."""

    side_by_side: bool = False
    """Whether several pieces of memory have to be copied next to one another first."""

    @property
    def elements(self) -> int:
        """Of all its tensors."""
        return sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class MessageClaim:
    """One message of a step: the gradients in it, what travels of them, and the work on them."""

    bucket: BucketShape
    rounds: tuple[Transfer, ...]
    """One after the other: each needs the result of the one before."""

    passes: float
    """Memory passes over the gradients to get them into the message and back, coding included."""

    overlaps: bool
    """Whether it leaves as soon as its gradients are ready; otherwise after backward."""


def settled_buffers(payload: Payload, workers: int) -> tuple[Transfer, ...]:
    """Rank 0's buffers become everyone's at a settle."""
    if payload.buffer_bytes and workers > 1:
        return (Transfer("broadcast", payload.buffer_bytes, per="settle"),)
    return ()


def by_pattern(transfers: Iterable[Transfer], per: str) -> dict[str, int]:
    """Payload bytes per pattern, of the transfers made once per `per`; a mean where they are not made every time."""
    totals: dict[str, int] = {}
    for transfer in transfers:
        if transfer.per == per:
            totals[transfer.pattern] = totals.get(transfer.pattern, 0) + round(transfer.payload_bytes / transfer.every)
    return totals


def claimed_bytes(transfers: Iterable[Transfer], *, first_step: int, steps: int, settles: int) -> dict[str, int]:
    """Payload bytes per pattern that so many steps, after `first_step` earlier ones, and settles move.

    A transfer of every H steps is made after the steps H, 2 H, … of the whole training, whenever it was resumed.
    """
    totals: Counter[str] = Counter()
    for transfer in transfers:
        steps_made = (first_step + steps) // transfer.every - first_step // transfer.every
        totals[transfer.pattern] += transfer.payload_bytes * (steps_made if transfer.per == "step" else settles)
    return dict(+totals)


def added_up(transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
    """The same transfers with those alike made one, in the order in which they first come."""
    totals: dict[tuple[Pattern, Literal["step", "settle"], int], int] = {}
    for transfer in transfers:
        alike = (transfer.pattern, transfer.per, transfer.every)
        totals[alike] = totals.get(alike, 0) + transfer.payload_bytes
    return tuple(Transfer(pattern, size, per, every) for (pattern, per, every), size in totals.items())

"""What a strategy sends, as transfers: a claim, checked against what the group counted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Pattern: TypeAlias = Literal["ring", "broadcast", "to_server", "from_server"]


@dataclass(frozen=True)
class Transfer:
    """One payload, the pattern it moves in, and how often."""

    pattern: Pattern
    payload_bytes: int
    per: Literal["step", "settle"] = "step"

    def sent_bytes(self, workers: int) -> float:
        """Bytes that one worker sends, on average over the workers.

        ring: 2(n−1)/n·S. broadcast: n−1 of n workers must get S from someone, (n−1)/n·S.
        to_server: S. from_server: a worker only receives.
        """
        factor = {
            "ring": 2 * (workers - 1) / workers,
            "broadcast": (workers - 1) / workers,
            "to_server": 1.0,
            "from_server": 0.0,
        }[self.pattern]
        return factor * self.payload_bytes


@dataclass(frozen=True)
class Payload:
    """What a model has to exchange."""

    gradient_bytes: tuple[int, ...]
    """Per parameter tensor that is trained, in order of registration."""

    buffer_bytes: int
    element_bytes: int = 4
    """Bytes of one gradient element."""


class Traffic(Protocol):
    """The options of a strategy, and what it sends with them."""

    @property
    def synchronous(self) -> bool:
        """Whether all workers arrive before any may update."""

    @property
    def servers(self) -> int:
        """Server processes it starts."""

    def transfers(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """What one worker sends and receives in a step, and at a settle."""


def settled_buffers(payload: Payload, workers: int) -> tuple[Transfer, ...]:
    """Rank 0's buffers become everyone's at a settle."""
    if payload.buffer_bytes and workers > 1:
        return (Transfer("broadcast", payload.buffer_bytes, per="settle"),)
    return ()


def by_pattern(transfers: Iterable[Transfer], per: str) -> dict[str, int]:
    """Payload bytes per pattern, of the transfers made once per `per`."""
    totals: dict[str, int] = {}
    for transfer in transfers:
        if transfer.per == per:
            totals[transfer.pattern] = totals.get(transfer.pattern, 0) + transfer.payload_bytes
    return totals

"""Interfaces of a chain's parts: when replicas synchronise (schedule), what is sent (codec), and how (transport)."""

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from paceline.traffic.base import BucketShape, MessageClaim, Payload, RoundPattern, Transfer

Kind: TypeAlias = Literal["schedule", "codec", "transport"]
KINDS: tuple[Kind, ...] = ("schedule", "codec", "transport")
"""Schedule, codec and transport, in the order in which a chain is written."""


@dataclass(frozen=True)
class Member:
    """One entry of the catalogue: its declaration, and the class that implements it."""

    kind: Kind
    claim: type[Any]
    """The dataclass of its options: a ScheduleClaim, CodecClaim or TransportClaim."""

    summary: str
    implementation: str
    """`package.module:Class` that implements it with torch."""

    def implemented(self) -> Any:
        """The class that implements it; this imports torch, so call it only to create a replica."""
        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(module), name)


class ScheduleClaim(ABC):
    """When replicas synchronise, which also determines what they exchange and who updates.

    Without a schedule, workers exchange gradients in every step. With a schedule of every H steps, each worker updates
    by itself with its own optimizer; then they exchange the changes of their parameters since the last exchange.
    """

    exchanges: ClassVar[bool] = True
    """False if replicas never synchronise."""

    passes: ClassVar[float] = 0.0
    """Memory passes over the parameters to compute their change and to apply the synchronised one."""

    @property
    @abstractmethod
    def every(self) -> int:
        """Steps from one synchronisation to the next."""


class CodecClaim(ABC):
    """What is sent of a bucket: the bytes, the rounds, and the cost of encoding."""

    patterns: ClassVar[tuple[RoundPattern, ...]]
    """One per round: `ring`, where the encoded data can be summed in transit, or `gather`."""

    encode_passes: ClassVar[float]
    """Memory passes over the original bytes to encode them."""

    decode_passes: ClassVar[float]
    """Memory passes to decode the data of one worker, or the sum."""

    @abstractmethod
    def coded_bytes(self, bucket: BucketShape) -> tuple[int, ...]:
        """Bytes that one worker sends in each round, the same on every worker."""

    def passes(self, workers: int) -> float:
        """Memory passes of a worker that encodes its own data and decodes the sum, or the data of all workers."""
        return self.encode_passes + self.decode_passes * (workers if "gather" in self.patterns else 1)

    def rounds(self, bucket: BucketShape) -> tuple[Transfer, ...]:
        """The transfers between workers for one bucket."""
        return tuple(Transfer(*each) for each in zip(self.patterns, self.coded_bytes(bucket), strict=True))


class TransportClaim(ABC):
    """How data is sent: grouping, overlap, servers, and which codecs and schedules it supports."""

    servers: int = 0
    """Server processes it starts."""

    bound: int | None = None
    """Steps that a worker may be ahead of the slowest; None if there is no bound, or no lead at all."""

    rounds_of_codec: ClassVar[int | None] = None
    """The most rounds that a codec may take; None for any number."""

    coded: ClassVar[str] = "yes"
    """Which part of its traffic a codec encodes, as shown in the table of combinations."""

    carries_changes: ClassVar[bool] = True
    """Whether it can also send the parameter changes of a schedule of every H steps."""

    @property
    def synchronous(self) -> bool:
        """Whether all workers arrive before any may update."""
        return True

    @property
    def overlaps(self) -> bool:
        """Whether an exchange may start before the end of backward."""
        return False

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        """The applied gradient: the mean over all workers' samples, or the sum of the workers' means."""
        return "mean"

    @property
    def server_place(self) -> Literal["shared", "own"] | None:
        """Where servers run; None for devices of their own if some are free, or if there are no servers."""
        return None

    @property
    def needs_gpu(self) -> bool:
        """Whether it cannot run without a GPU."""
        return False

    @property
    def clipping_refused(self) -> str | None:
        """Why gradients cannot be clipped by their norm, as `NAME is not possible: …. REMEDY`; None if they can."""
        return None

    @abstractmethod
    def messages(self, payload: Payload, codec: CodecClaim | None, workers: int) -> tuple[MessageClaim, ...]:
        """The messages of a step, in sending order."""

    @abstractmethod
    def settled(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """The transfers of a settle."""

    def meaningless_for_changes(self) -> str | None:
        """An option, as written, that does not apply to parameter changes; None if all apply."""
        return None

    def regrouped(self, bucket: int | None) -> "TransportClaim | None":
        """The same transport with buckets of this many bytes, or of the default size; None if it does not group."""
        return None

    def with_servers(self, servers: int) -> "TransportClaim | None":
        """The same transport with this many servers; None if it has none."""
        return None

"""What a member of a chain declares: when replicas agree, what travels, and how it travels."""

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from paceline.traffic.base import BucketShape, MessageClaim, Payload, RoundPattern, Transfer

Kind: TypeAlias = Literal["when", "what", "how"]
KINDS: tuple[Kind, ...] = ("when", "what", "how")
"""In the order in which a chain is written."""


@dataclass(frozen=True)
class Member:
    """One name of the catalogue: what it declares, and where it is carried out."""

    kind: Kind
    claim: type[Any]
    """The dataclass of its options: a ScheduleClaim, CodecClaim or TransportClaim."""

    summary: str
    implementation: str
    """`package.module:Class` that carries it out with torch."""

    def implemented(self) -> Any:
        """The class that carries it out; imports torch, so only where a replica is made."""
        module, _, name = self.implementation.partition(":")
        return getattr(importlib.import_module(module), name)


class ScheduleClaim(ABC):
    """When replicas agree, which also decides what they agree on and who updates.

    Without a schedule gradients are agreed on in every step. A schedule of every H steps lets each worker update by
    itself, with its own optimizer, and then agree on the change of its parameters since they last agreed.
    """

    exchanges: ClassVar[bool] = True
    """False: never; the replicas go their own ways."""

    passes: ClassVar[float] = 0.0
    """Memory passes over the parameters of taking their change and applying the agreed one."""

    @property
    @abstractmethod
    def every(self) -> int:
        """Steps from one agreement to the next."""


class CodecClaim(ABC):
    """What travels of a bucket: how many bytes, in which rounds, and what coding costs."""

    patterns: ClassVar[tuple[RoundPattern, ...]]
    """One for each round: `ring`, where what travels can be summed on the way, or `gather`."""

    encode_passes: ClassVar[float]
    """Memory passes over the uncoded bytes to code them."""

    decode_passes: ClassVar[float]
    """The same to decode one worker's, or the sum."""

    @abstractmethod
    def coded_bytes(self, bucket: BucketShape) -> tuple[int, ...]:
        """Bytes that one worker hands over in each round, the same on every worker."""

    def passes(self, workers: int) -> float:
        """Of a worker that codes its own and decodes the sum, or everybody's."""
        return self.encode_passes + self.decode_passes * (workers if "gather" in self.patterns else 1)

    def rounds(self, bucket: BucketShape) -> tuple[Transfer, ...]:
        """What the workers send one another of one bucket."""
        return tuple(Transfer(*each) for each in zip(self.patterns, self.coded_bytes(bucket), strict=True))


class TransportClaim(ABC):
    """How it travels: grouping, overlap, servers, and what combines with it."""

    servers: int = 0
    """Server processes it starts."""

    bound: int | None = None
    """Steps that a worker may be ahead of the slowest; None: no bound, or no lead at all."""

    rounds_of_codec: ClassVar[int | None] = None
    """The most rounds that a codec may take; None: any number."""

    coded: ClassVar[str] = "yes"
    """What of its traffic a codec codes, in the words of the table of combinations."""

    carries_changes: ClassVar[bool] = True
    """Whether it can also carry what workers agree on every H steps."""

    @property
    def synchronous(self) -> bool:
        """Whether all workers arrive before any may update."""
        return True

    @property
    def overlaps(self) -> bool:
        """Whether an exchange may start before backward has ended."""
        return False

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        """What is applied: the mean over all workers' samples, or the sum of the workers' means."""
        return "mean"

    @property
    def server_place(self) -> Literal["shared", "own"] | None:
        """Where servers run; None: on devices of their own where some are free, or there are no servers."""
        return None

    @property
    def needs_gpu(self) -> bool:
        """Whether it cannot run without a GPU."""
        return False

    @property
    def clipping_refused(self) -> str | None:
        """Why a gradient cannot be clipped by its norm, as `NAME makes no sense: …. REMEDY`; None: it can."""
        return None

    @abstractmethod
    def messages(self, payload: Payload, codec: CodecClaim | None, workers: int) -> tuple[MessageClaim, ...]:
        """What travels in a step, in the order in which it leaves."""

    @abstractmethod
    def settled(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """What is sent at a settle."""

    def meaningless_for_changes(self) -> str | None:
        """An option, as it is written, that has no meaning where changes of parameters travel; None: all have one."""
        return None

    def regrouped(self, bucket: int | None) -> "TransportClaim | None":
        """The same with buckets of so many bytes, or of the usual size; None where nothing is grouped."""
        return None

    def with_servers(self, servers: int) -> "TransportClaim | None":
        """The same with so many servers; None where there are none."""
        return None

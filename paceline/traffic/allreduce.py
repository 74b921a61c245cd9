"""The traffic of an all-reduce: every gradient once around a ring."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from paceline.grammar import Bytes, require
from paceline.traffic.base import BucketShape, MessageClaim, Payload, Transfer, settled_buffers
from paceline.traffic.members import CodecClaim, TransportClaim

DDP_FIRST_BYTES = 2**20
DDP_BYTES = 25 * 2**20
"""DDP's own bucket sizes."""

BUCKET_PASSES = 2.0
"""Memory passes of a gradient in DDP's bucket, which is zeroed and then added to; one worker alone has them too."""

COPY_PASSES = 2.0
"""Memory passes of gradients that are copied into one buffer: one into the copy, and one back."""


@dataclass(frozen=True, kw_only=True)
class AllReduce(TransportClaim):
    """Gradients are summed over all workers, bucket by bucket, overlapped with backward."""

    bucket: Bytes | None = None
    """Size at which a bucket is closed; by default DDP's: 1 MiB for the first, then 25 MiB."""

    packs: int | None = None
    """One flat buffer of all gradients, exchanged in this many equal slices after backward."""

    small: Bytes | None = None
    """Gradients below this size are exchanged together, larger ones separately."""

    overlap: bool | None = None
    """Whether buckets start during backward; by default yes, except with packs, which need all gradients first."""

    reduce: Literal["mean", "sum"] = "mean"
    """mean weights workers by their samples; sum adds their means, as if the learning rate grew with workers."""

    def __post_init__(self) -> None:
        given = [f"{k}=" for k in ("bucket", "packs", "small") if getattr(self, k) is not None]
        require(len(given) <= 1, f"allreduce: {' and '.join(given)} cannot be combined: keep one way of grouping.")
        require(
            self.bucket is None or self.bucket > 0,
            f"allreduce: bucket={self.bucket} is not valid: it must be above 0 bytes.",
        )
        require(
            self.packs is None or self.packs >= 1,
            f"allreduce: packs={self.packs} is not valid: it must be at least 1.",
        )
        require(self.small is None or self.small > 0, "allreduce: small=0 is not valid: leave it out to switch it off.")
        require(
            not (self.packs and self.overlap),
            "allreduce: packs= cannot be combined with overlap=on: a flat buffer of all gradients is complete only "
            "after backward. Leave overlap out, or use bucket=.",
        )

    @property
    def overlaps(self) -> bool:
        """Whether an exchange may start before the end of backward."""
        return self.overlap if self.overlap is not None else self.packs is None

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        """The applied gradient: the mean over all workers' samples, or the sum of the workers' means."""
        return self.reduce

    def messages(self, payload: Payload, codec: CodecClaim | None, workers: int) -> tuple[MessageClaim, ...]:
        """One message per bucket: its gradients around a ring, or their encoded form."""
        return tuple(self._message(bucket, codec, workers) for bucket in self.buckets(payload))

    def _message(self, bucket: BucketShape, codec: CodecClaim | None, workers: int) -> MessageClaim:
        copies = COPY_PASSES if bucket.side_by_side else 0.0
        # Encoding reads every gradient in place and writes one buffer, so it needs no separate copy.
        passes = BUCKET_PASSES + max(copies, codec.passes(workers) if codec is not None else 0.0)
        rounds = (Transfer("ring", bucket.payload_bytes),) if codec is None else codec.rounds(bucket)
        return MessageClaim(bucket, rounds, passes, self.overlaps)

    def settled(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """Buffers."""
        return settled_buffers(payload, workers)

    def meaningless_for_changes(self) -> str | None:
        """Parameter changes are complete only after an update, so they cannot overlap with backward."""
        return "overlap=on" if self.overlap else None

    def regrouped(self, bucket: int | None) -> "AllReduce":
        """The same strategy with buckets of this many bytes, or DDP's, sent during backward."""
        size = None if bucket is None else Bytes(bucket)
        return replace(self, bucket=size, packs=None, small=None, overlap=None)

    def buckets(self, payload: Payload) -> tuple[BucketShape, ...]:
        """The messages of a step in sending order, last registered gradients first."""
        if not sum(payload.gradient_bytes):
            return ()
        if self.packs is not None:
            return tuple(_packs(payload, self.packs))
        return tuple(_small(payload, self.small) if self.small is not None else _buckets(payload, self._caps()))

    def _caps(self) -> tuple[int, int]:
        """Sizes at which the first bucket and the later ones are closed."""
        return (DDP_FIRST_BYTES, DDP_BYTES) if self.bucket is None else (self.bucket, self.bucket)


def _bucket(payload: Payload, tensors: list[int], *, side_by_side: bool = False) -> BucketShape:
    shapes = tuple(payload.shape(tensor) for tensor in tensors)
    return BucketShape(sum(payload.gradient_bytes[t] for t in tensors), shapes, tuple(tensors), side_by_side)


def _buckets(payload: Payload, caps: tuple[int, int]) -> Iterator[BucketShape]:
    """In reverse order of registration; a bucket is closed by the gradient that fills it, however large."""
    cap, size, tensors = caps[0], 0, list[int]()
    for tensor in reversed(range(len(payload.gradient_bytes))):
        tensors.append(tensor)
        size += payload.gradient_bytes[tensor]
        if size >= cap:
            yield _bucket(payload, tensors)
            cap, size, tensors = caps[1], 0, []
    if size:
        yield _bucket(payload, tensors)


def _small(payload: Payload, limit: int) -> Iterator[BucketShape]:
    """Gradients of at least `limit` bytes are sent alone; smaller ones wait until they reach it together."""
    size, waiting = 0, list[int]()
    for tensor in reversed(range(len(payload.gradient_bytes))):
        if payload.gradient_bytes[tensor] >= limit:
            yield _bucket(payload, [tensor])
            continue
        waiting.append(tensor)
        size += payload.gradient_bytes[tensor]
        if size >= limit:
            yield _bucket(payload, waiting, side_by_side=len(waiting) > 1)
            size, waiting = 0, []
    if size:
        yield _bucket(payload, waiting, side_by_side=len(waiting) > 1)


def _packs(payload: Payload, packs: int) -> Iterator[BucketShape]:
    """One flat buffer in equal slices that ignore tensor boundaries; at most one slice per element."""
    packs = max(1, min(packs, payload.elements))
    everything = tuple(reversed(range(len(payload.gradient_bytes))))
    sizes = _even(sum(payload.gradient_bytes), packs)
    for size, elements in zip(sizes, _even(payload.elements, packs), strict=True):
        if size:
            yield BucketShape(size, ((elements,),), everything)


def _even(whole: int, parts: int) -> list[int]:
    each, rest = divmod(whole, parts)
    return [each + (1 if number < rest else 0) for number in range(parts)]

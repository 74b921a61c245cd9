"""Which gradients leave together, and when: the grouping rules of each way to exchange."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.traffic.allreduce import AllReduce
from paceline.traffic.base import Traffic

DDP_FIRST_BYTES = 2**20
DDP_BYTES = 25 * 2**20
"""DDP's own bucket sizes."""


BUCKET_PASSES = 2.0
"""Memory passes of a gradient in DDP's bucket, which is cleared and then added to; one worker alone has them, too."""

COPY_PASSES = 2.0
"""Of a message that is a copy: one into it, in another format or side by side, and one back."""


@dataclass(frozen=True)
class Gradient:
    """One tensor's: its bytes, and how much of backward's own work is done when it is ready."""

    payload_bytes: int
    ready_seconds: float


@dataclass(frozen=True)
class Group:
    """Gradients that are exchanged as one message, once they are ready and all groups before them have left."""

    payload_bytes: int
    ready_seconds: float
    copied_passes: float = 0.0
    """Memory passes of getting them into their message and back."""


def groups_of(traffic: Traffic, gradients: Sequence[Gradient], backward_seconds: float) -> tuple[Group, ...]:
    """The messages of a step in the order in which they leave; a strategy without buckets sends all after backward."""
    if not sum(g.payload_bytes for g in gradients):
        return ()
    if not isinstance(traffic, AllReduce):
        return (Group(sum(g.payload_bytes for g in gradients), backward_seconds),)
    converted = COPY_PASSES if traffic.wire != "fp32" else 0.0
    if traffic.packs is not None:
        packs = _packs(sum(g.payload_bytes for g in gradients), traffic.packs)
        return tuple(Group(size, backward_seconds, BUCKET_PASSES + converted) for size in packs)
    found = _small(gradients, traffic.small) if traffic.small is not None else _buckets(gradients, _caps(traffic))
    reached, leaving = 0.0, []
    for group in found:
        # DDP hands buckets over in order: one that is ready early waits for those before it.
        reached = max(reached, group.ready_seconds) if traffic.overlaps else backward_seconds
        copied = max(group.copied_passes, converted)  # side by side in the other format at once
        leaving.append(Group(group.payload_bytes, reached, BUCKET_PASSES + copied))
    return tuple(leaving)


def _caps(traffic: AllReduce) -> tuple[int, int]:
    """Sizes at which the first bucket and the later ones are closed."""
    return (DDP_FIRST_BYTES, DDP_BYTES) if traffic.bucket is None else (traffic.bucket, traffic.bucket)


def _buckets(gradients: Sequence[Gradient], caps: tuple[int, int]) -> Iterator[Group]:
    """In reverse order of registration; a bucket is closed by the gradient that fills it, however large."""
    cap, size, ready = caps[0], 0, 0.0
    for gradient in reversed(gradients):
        size, ready = size + gradient.payload_bytes, max(ready, gradient.ready_seconds)
        if size >= cap:
            yield Group(size, ready)
            cap, size, ready = caps[1], 0, 0.0
    if size:
        yield Group(size, ready)


def _small(gradients: Sequence[Gradient], limit: int) -> Iterator[Group]:
    """Gradients from `limit` on leave alone, the others wait until they are so many bytes together."""
    size, ready, count = 0, 0.0, 0
    for gradient in reversed(gradients):
        if gradient.payload_bytes >= limit:
            yield Group(gradient.payload_bytes, gradient.ready_seconds)
            continue
        size, ready, count = size + gradient.payload_bytes, max(ready, gradient.ready_seconds), count + 1
        if size >= limit:
            yield Group(size, ready, COPY_PASSES if count > 1 else 0.0)
            size, ready, count = 0, 0.0, 0
    if size:
        yield Group(size, ready, COPY_PASSES if count > 1 else 0.0)


def _packs(payload_bytes: int, packs: int) -> Iterator[int]:
    """One flat buffer in equal slices."""
    whole, rest = divmod(payload_bytes, packs)
    return filter(None, (whole + (1 if number < rest else 0) for number in range(packs)))

"""Codecs: encode a bucket in rounds, and write the synchronised result back into it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from paceline.strategies.group import Group
from paceline.strategies.state import StateDict
from paceline.traffic import catalogue
from paceline.traffic.members import CodecClaim
from paceline.traffic.resolved import ChosenMember


@dataclass(frozen=True)
class Sum:
    """A round that is summed in transit: the codec continues with the sum over all workers, in the same tensor."""

    tensor: Tensor


@dataclass(frozen=True)
class Gather:
    """A round that only gathers: the codec continues with all workers' tensors, in order of rank."""

    tensor: Tensor


Rounds: TypeAlias = Generator[Sum | Gather, Any, None]


class BucketViews:
    """Gradients of one message: tensor by tensor, or as one flat piece where tensors are split."""

    def __init__(self, key: str, memory: Sequence[Tensor], views: Sequence[Tensor] | None = None) -> None:
        self.key = key
        """A key for the codec's state: the same for the same gradients in every step and in a resumed run."""

        self.views = views if views is not None else memory
        """The gradient of each parameter, in its shape."""

        self._memory = memory

    @property
    def elements(self) -> int:
        """The number of elements of all gradients."""
        return sum(piece.numel() for piece in self._memory)

    def flat(self) -> Tensor:
        """All elements as one flat tensor: the gradients' own memory if it is one piece, otherwise a copy."""
        return self._memory[0] if len(self._memory) == 1 else torch.cat(list(self._memory))

    def write(self, values: Tensor) -> None:
        """Replace all elements by these, in the order of `flat`."""
        if values is self._memory[0]:
            return
        for piece, value in zip(self._memory, torch.split(values, [p.numel() for p in self._memory]), strict=True):
            piece.copy_(value)


class Codec(ABC):
    """Encodes every bucket of one replica, and keeps its state from step to step."""

    def __init__(self, options: CodecClaim) -> None:
        self.options = options

    @abstractmethod
    def code(self, bucket: BucketViews) -> Rounds:
        """Yield each round's tensor, of the same size on every worker; at the end the bucket holds the result.

        The rounds are those that the claim declares; final rounds that have nothing to send may be left out. The first
        is sent when the bucket is ready, which may be during backward; the others follow in the exchange.
        """

    def state(self) -> StateDict:
        """The state that is kept from step to step, for a checkpoint: this worker's own."""
        return {}

    def load(self, state: StateDict) -> None:
        """Resume from a saved state."""
        assert not state, "a codec with state must define load, too"


@dataclass(frozen=True)
class CodecFactory:
    """Creates a codec for each replica; a server creates its own from the same text."""

    part: ChosenMember

    def __call__(self) -> Codec:
        codec: Codec = self.part.member.implemented()(self.part.claim)
        return codec

    def __str__(self) -> str:
        return str(self.part)

    @classmethod
    def of_text(cls, text: str) -> "CodecFactory":
        """The inverse of `str`."""
        return cls(catalogue.resolve_member(text))


class OneRoundCodec(Codec):
    """A codec of one round, which a server can also decode."""

    @abstractmethod
    def encode(self, bucket: BucketViews) -> Tensor:
        """What one worker sends of a bucket, in a tensor that no later step writes to: it may still be in flight.

        `bucket.flat()` may be the gradients' own memory: do not write to it. A bucket may be empty, and may be float64.
        """

    @abstractmethod
    def decode(self, coded: Tensor, elements: int) -> Tensor:
        """Decode this many elements from what one worker sent, or from the sum if it was summed in transit.

        A server refuses a push for which this raises, or returns another number of elements.
        """

    def code(self, bucket: BucketViews) -> Rounds:
        """Decode the sum, or decode the tensors of all workers and add them in order of rank."""
        if self.options.patterns == ("ring",):
            summed = yield Sum(self.encode(bucket))
            bucket.write(self.decode(summed, bucket.elements))
            return
        first, *others = yield Gather(self.encode(bucket))
        total = self.decode(first, bucket.elements)
        for coded in others:
            total = total + self.decode(coded, bucket.elements)
        bucket.write(total)


class CastCodec(OneRoundCodec):
    """Casts every element to another format; sums are computed in that format, too."""

    dtype: torch.dtype

    def encode(self, bucket: BucketViews) -> Tensor:
        """A copy in the other format."""
        return bucket.flat().to(self.dtype)

    def decode(self, coded: Tensor, elements: int) -> Tensor:
        """The tensor unchanged: writing it converts it."""
        return coded


class Uncoded(Codec):
    """Unencoded gradients, for transports that treat all buckets alike."""

    def __init__(self) -> None:
        """It has no options."""

    def code(self, bucket: BucketViews) -> Rounds:
        """One round, summed in place."""
        bucket.write((yield Sum(bucket.flat())))


class CodedExchange:
    """The rounds of one bucket between workers: the first starts at once, each later one by `advance`."""

    def __init__(self, rounds: Rounds, group: Group, then: Callable[[], None] | None = None) -> None:
        self._rounds = rounds
        self._group = group
        self._start(next(rounds), then)

    def _start(self, round_: Sum | Gather, then: Callable[[], None] | None = None) -> None:
        match round_:
            case Sum(tensor):
                pending = self._group.all_reduce(tensor, then)

                def finish() -> Any:
                    pending.wait()
                    return tensor
            case Gather(tensor):
                finish = self._group.all_gather_async(tensor, then).wait
        self._finish = finish

    def advance(self) -> bool:
        """Wait for the current round and start the next; False if it was the last and the bucket holds the result."""
        try:
            following = self._rounds.send(self._finish())
        except StopIteration:
            return False
        self._start(following)
        return True

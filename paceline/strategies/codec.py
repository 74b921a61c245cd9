"""What travels of a bucket: a codec codes it in rounds, and writes what the workers agreed on back into it."""

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
    """A round that is summed on the way: the codec is resumed with the sum over all workers, in the same tensor."""

    tensor: Tensor


@dataclass(frozen=True)
class Gather:
    """A round that only gathers: the codec is resumed with everybody's tensors, in order of rank."""

    tensor: Tensor


Rounds: TypeAlias = Generator[Sum | Gather, Any, None]


class BucketViews:
    """Gradients that leave as one message: tensor by tensor, or as one flat piece where tensors are cut."""

    def __init__(self, key: str, memory: Sequence[Tensor], views: Sequence[Tensor] | None = None) -> None:
        self.key = key
        """The same for the same gradients in every step, and in a resumed run: names what a codec keeps of them."""

        self.views = views if views is not None else memory
        """Each parameter's gradient in its shape."""

        self._memory = memory

    @property
    def elements(self) -> int:
        """Of all gradients together."""
        return sum(piece.numel() for piece in self._memory)

    def flat(self) -> Tensor:
        """All elements in a row: the gradients' own memory where it is one piece, otherwise a copy."""
        return self._memory[0] if len(self._memory) == 1 else torch.cat(list(self._memory))

    def write(self, values: Tensor) -> None:
        """Replace all elements by these, in the order of `flat`."""
        if values is self._memory[0]:
            return
        for piece, value in zip(self._memory, torch.split(values, [p.numel() for p in self._memory]), strict=True):
            piece.copy_(value)


class Codec(ABC):
    """Codes every bucket of one replica, and keeps what it needs from step to step."""

    def __init__(self, options: CodecClaim) -> None:
        self.options = options

    @abstractmethod
    def code(self, bucket: BucketViews) -> Rounds:
        """Yield each round's tensor, of the same size on every worker; at the end the bucket holds what was agreed on.

        The rounds are those that the claim declares; last ones that have nothing to send may be left out. The first one
        leaves when the bucket is ready, which may be during backward; the later ones follow in the exchange.
        """

    def state(self) -> StateDict:
        """What is kept from step to step, for a checkpoint: this worker's own."""
        return {}

    def load(self, state: StateDict) -> None:
        """Go on from a saved state."""
        assert not state, "a codec that keeps something loads it, too"


@dataclass(frozen=True)
class CodecFactory:
    """Makes a codec for each replica; a server makes its own from the same text."""

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
    """A codec of one round, which a server can decode, too."""

    @abstractmethod
    def encode(self, bucket: BucketViews) -> Tensor:
        """What one worker sends of a bucket, in a tensor that no later step writes to: it may still be on its way.

        `bucket.flat()` may be the gradients' own memory: do not write to it. A bucket may be empty, and may be float64.
        """

    @abstractmethod
    def decode(self, coded: Tensor, elements: int) -> Tensor:
        """So many elements in a row, of what one worker sent, or of the sum where that is summed on the way.

        A server refuses a push for which this raises, or returns another number of elements.
        """

    def code(self, bucket: BucketViews) -> Rounds:
        """The sum is decoded, or everybody's is decoded and added in order of rank."""
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
    """Every element in another format; sums are made in that format, too."""

    dtype: torch.dtype

    def encode(self, bucket: BucketViews) -> Tensor:
        """A copy in the other format."""
        return bucket.flat().to(self.dtype)

    def decode(self, coded: Tensor, elements: int) -> Tensor:
        """As it is: it is converted where it is written."""
        return coded


class Uncoded(Codec):
    """Gradients as they are, for transports that treat all buckets alike."""

    def __init__(self) -> None:
        """Nothing to choose."""

    def code(self, bucket: BucketViews) -> Rounds:
        """One round, summed in place."""
        bucket.write((yield Sum(bucket.flat())))


class CodedExchange:
    """The rounds of one bucket between workers: the first is under way at once, each later one when asked."""

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
        """Wait for the round under way and start the next one; False: that was the last, and the bucket is agreed."""
        try:
            following = self._rounds.send(self._finish())
        except StopIteration:
            return False
        self._start(following)
        return True

"""Members of strategies that are not in the catalogue: one for each seam, in as few lines as prove it.

`toys:SIGNS` only gathers and keeps a residual; `toys:LOWRANK` takes two rounds; `toys:EVERY` agrees every H steps.
Only what carries them out needs torch, so it is imported with the classes in `toy_classes`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from paceline.grammar import require
from paceline.traffic.base import BucketShape, RoundPattern
from paceline.traffic.members import CodecClaim, Member, ScheduleClaim


@dataclass(frozen=True, kw_only=True)
class Signs(CodecClaim):
    """The sign of every element and one scale for all of a bucket; what that loses is added to the next step's."""

    patterns: ClassVar[tuple[RoundPattern, ...]] = ("gather",)
    encode_passes: ClassVar[float] = 4.0
    decode_passes: ClassVar[float] = 2.0

    def coded_bytes(self, bucket: BucketShape) -> tuple[int, ...]:
        return (4 + bucket.elements,)


@dataclass(frozen=True, kw_only=True)
class LowRank(CodecClaim):
    """Matrices as products of two thin ones, in the manner of PowerSGD; vectors as they are."""

    patterns: ClassVar[tuple[RoundPattern, ...]] = ("ring", "ring")
    encode_passes: ClassVar[float] = 4.0
    decode_passes: ClassVar[float] = 2.0

    rank: int = 1

    def __post_init__(self) -> None:
        require(self.rank >= 1, f"LOWRANK: rank={self.rank} must be at least 1.")

    def coded_bytes(self, bucket: BucketShape) -> tuple[int, ...]:
        element_bytes = bucket.payload_bytes // bucket.elements
        matrices = [(shape[0], math.prod(shape[1:])) for shape in bucket.shapes if len(shape) > 1]
        vectors = sum(math.prod(shape) for shape in bucket.shapes if len(shape) < 2)
        left = sum(rows * self.rank_of(rows, columns) for rows, columns in matrices)
        right = sum(columns * self.rank_of(rows, columns) for rows, columns in matrices)
        return (element_bytes * (vectors + left), element_bytes * right)

    def rank_of(self, rows: int, columns: int) -> int:
        """No matrix has a higher rank than it has rows or columns."""
        return min(self.rank, rows, columns)


@dataclass(frozen=True, kw_only=True)
class Every(ScheduleClaim):
    """Workers update by themselves and agree on their changes every so many steps."""

    passes: ClassVar[float] = 3.0

    steps: int = 2

    @property
    def every(self) -> int:
        return self.steps


SIGNS = Member("codec", Signs, "signs and a scale, with a residual", "toy_classes:SignsCodec")
LOWRANK = Member("codec", LowRank, "matrices of low rank, in two rounds", "toy_classes:LowRankCodec")
EVERY = Member("schedule", Every, "changes averaged every H steps", "toy_classes:EveryStrategy")

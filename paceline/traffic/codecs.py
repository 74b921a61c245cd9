"""Common parts of codecs: gradients in a narrower format can still be summed in transit."""

from dataclasses import dataclass
from typing import ClassVar

from paceline.traffic.base import BucketShape, RoundPattern
from paceline.traffic.members import CodecClaim


@dataclass(frozen=True, kw_only=True)
class CastClaim(CodecClaim):
    """Every element in a format of `element_bytes`: one pass to cast, and one back."""

    patterns: ClassVar[tuple[RoundPattern, ...]] = ("ring",)
    encode_passes: ClassVar[float] = 1.0
    decode_passes: ClassVar[float] = 1.0
    element_bytes: ClassVar[int] = 2

    def coded_bytes(self, bucket: BucketShape) -> tuple[int, ...]:
        """The number of elements times the bytes of each."""
        return (bucket.elements * self.element_bytes,)

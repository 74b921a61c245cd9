"""Traffic as half precision: two bytes per element."""

from dataclasses import dataclass

from paceline.traffic.codecs import CastClaim


@dataclass(frozen=True, kw_only=True)
class Fp16(CastClaim):
    """No options: half the bytes of fp32, with 11 bits of precision up to 65504; sums are rounded, too."""

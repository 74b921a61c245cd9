"""Traffic as bfloat16: two bytes per element."""

from dataclasses import dataclass

from paceline.traffic.codecs import CastClaim


@dataclass(frozen=True, kw_only=True)
class Bf16(CastClaim):
    """No options: half the bytes of fp32, with its range and 8 bits of precision; sums are rounded, too."""

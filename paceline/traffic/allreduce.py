"""What an all-reduce sends: every gradient once around a ring."""

from dataclasses import dataclass
from typing import Literal

from paceline.grammar import Bytes, require
from paceline.traffic.base import Payload, Transfer, settled_buffers


@dataclass(frozen=True, kw_only=True)
class AllReduce:
    """Gradients are added up over all workers, bucket by bucket while backward goes on."""

    bucket: Bytes | None = None
    """Size at which a bucket is closed; by default DDP's own: 1 MiB for the first, then 25 MiB."""

    packs: int | None = None
    """One flat buffer of all gradients, exchanged in this many equal slices after backward."""

    small: Bytes | None = None
    """Gradients below this size are exchanged together, the others each alone."""

    overlap: bool | None = None
    """Whether buckets start during backward; by default yes, except with packs, which need all gradients first."""

    wire: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Format in transit; fp32 leaves gradients as they are."""

    reduce: Literal["mean", "sum"] = "mean"
    """mean weighs workers by their samples; sum adds their means, as if the learning rate grew with workers."""

    synchronous = True
    servers = 0

    def __post_init__(self) -> None:
        given = [f"{k}=" for k in ("bucket", "packs", "small") if getattr(self, k) is not None]
        require(len(given) <= 1, f"allreduce: {' and '.join(given)} exclude one another: keep one way of grouping.")
        require(self.bucket is None or self.bucket > 0, f"allreduce: bucket={self.bucket} must be above 0 bytes.")
        require(self.packs is None or self.packs >= 1, f"allreduce: packs={self.packs} must be at least 1.")
        require(
            self.small is None or self.small > 0, "allreduce: small=0 makes no sense: leave it out to switch it off."
        )
        require(
            not (self.packs and self.overlap),
            "allreduce: packs= with overlap=on makes no sense: a flat buffer of all gradients is complete only after "
            "backward. Leave overlap out, or use bucket=.",
        )

    @property
    def overlaps(self) -> bool:
        """Whether an exchange may start before backward has ended."""
        return self.overlap if self.overlap is not None else self.packs is None

    def transfers(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """All gradients in their wire format around a ring; buffers at a settle."""
        gradients = sum(payload.gradient_bytes)
        if self.wire != "fp32":
            gradients = gradients // payload.element_bytes * 2
        return (Transfer("ring", gradients), *settled_buffers(payload, workers))

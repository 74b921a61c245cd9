"""Independent replicas send nothing."""

from dataclasses import dataclass

from paceline.traffic.base import Payload, Transfer


@dataclass(frozen=True, kw_only=True)
class Independent:
    """No options: every worker trains alone; the upper bound of throughput."""

    synchronous = False
    servers = 0

    def transfers(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """Nothing, not even buffers: the replicas do not agree."""
        return ()

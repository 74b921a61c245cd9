"""Speed-up and efficiency of runs against the one-worker run of the same kind."""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.record import Record

_ALIKE = ("workload", "batch", "precision", "feed", "accumulate", "cores_per_device")
_SAME_PLACE = ("host", "device_kind")


@dataclass(frozen=True)
class ScalingRow:
    """One run in a scaling table."""

    record: Record
    ideal: float | None
    """Sum of the used devices' one-worker rates; None where no one-worker run is there."""

    @property
    def speedup(self) -> float | None:
        """Against one worker on one device."""
        return self._against(1)

    @property
    def efficiency(self) -> float | None:
        """Share of the ideal reached. Servers on devices of their own count as devices."""
        return self._against(self.record.devices)

    def _against(self, devices: int) -> float | None:
        if self.ideal is None:
            return None
        return float(self.record.throughput["value"]) / (self.ideal / self.record.devices * devices)


def scaling_rows(records: Sequence[Record]) -> list[ScalingRow]:
    """Every record beside its ideal: the best one-device rate of one worker alone, times the devices used."""
    rows = []
    for record in records:
        rate = max((float(r.throughput["value"]) for r in records if _is_baseline(r, record)), default=None)
        rows.append(ScalingRow(record, rate * record.devices if rate is not None else None))
    return rows


def _is_baseline(candidate: Record, record: Record) -> bool:
    """One worker on one device of the same kind and size, alone, of the same workload, batch, precision and feed."""
    alike = all(candidate.spec[k] == record.spec[k] for k in _ALIKE)
    same_place = all(candidate.environment[k] == record.environment[k] for k in _SAME_PLACE)
    alone = candidate.spec["workers"] == 1 and candidate.devices == 1 and candidate.spec["strategy"] == "independent"
    return alike and alone and same_place

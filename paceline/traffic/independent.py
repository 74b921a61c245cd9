"""Independent replicas never synchronise and send nothing."""

from dataclasses import dataclass
from typing import ClassVar

from paceline.traffic.members import ScheduleClaim


@dataclass(frozen=True, kw_only=True)
class Independent(ScheduleClaim):
    """No options: every worker trains alone; the upper bound of throughput."""

    exchanges: ClassVar[bool] = False

    @property
    def every(self) -> int:
        """One: no step ends with a synchronisation, so all are alike."""
        return 1

"""Independent replicas never agree, and send nothing."""

from dataclasses import dataclass
from typing import ClassVar

from paceline.traffic.members import ScheduleClaim


@dataclass(frozen=True, kw_only=True)
class Independent(ScheduleClaim):
    """No options: every worker trains alone; the upper bound of throughput."""

    exchanges: ClassVar[bool] = False

    @property
    def every(self) -> int:
        """One step is like any other: nothing is agreed on after it."""
        return 1

"""What one worker process is told when it starts: plain data."""

import socket
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from paceline.devices.base import Placement, Slot
from paceline.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One worker's part in a run."""

    spec: RunSpec
    placement: Placement
    rank: int
    port: int
    """Of the store on loopback where workers find one another."""

    scratch: Path
    """Logs and series; removed after the run."""

    checkpoints: Path
    environment: dict[str, str]
    """Variables as the parent has them now; the server that workers are forked from may be older."""

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.placement.workers)

    @property
    def slot(self) -> Slot:
        """Where this worker runs."""
        return self.placement.workers[self.rank]

    @property
    def log(self) -> Path:
        """What this worker prints."""
        return log_of(self.scratch, self.rank)

    @property
    def series(self) -> Path:
        """Where this worker leaves its series."""
        return series_of(self.scratch, self.rank)


@dataclass(frozen=True)
class Gifts:
    """What only rank 0 is handed: open sockets and lines, which must have one owner."""

    listener: socket.socket | None = None
    """For the store, on loopback."""

    server_lines: "list[Connection[bytes, bytes]]" = field(default_factory=list)
    """To servers that wait to be told what to serve."""


def log_of(scratch: Path, rank: int) -> Path:
    """Where a worker's output goes."""
    return scratch / f"worker-{rank}.log"


def series_of(scratch: Path, rank: int) -> Path:
    """Where a worker's series go."""
    return scratch / f"worker-{rank}.npz"

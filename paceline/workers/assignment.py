"""What one worker process receives when it starts, as plain data."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from paceline.devices.base import Placement, Slot
from paceline.devices.emulated import Pace, Rate
from paceline.netns import Host
from paceline.spec import RunSpec
from paceline.traffic.resolved import ResolvedStrategy


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One worker's part in a run."""

    spec: RunSpec
    """As resolved by the plan."""

    strategy: ResolvedStrategy
    """As resolved by the plan."""

    placement: Placement
    rank: int
    store: tuple[str, int]
    """Address and port of the store for rendezvous."""

    paces: Sequence[Pace] = ()
    """The paces of emulated devices, by node; empty where devices are not emulated."""

    hosts: Sequence[Host] = ()
    """The hosts of a testbed, by node; empty where all workers use this machine's loopback."""

    scratch: Path
    """Logs and series; removed after the run."""

    checkpoints: Path
    environment: dict[str, str]
    """The parent's environment variables; those of the server that workers are forked from may be older."""

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self.placement.workers)

    @property
    def slot(self) -> Slot:
        """Where this worker runs."""
        return self.placement.workers[self.rank]

    @property
    def pace(self) -> Pace | None:
        """The pace of the device that this worker emulates; None where it does not emulate."""
        return self.paces[self.slot.node] if self.paces else None

    @property
    def rates_only(self) -> bool:
        """Whether only the rate of some device is known, so that the model's arithmetic decides how a step divides."""
        return any(isinstance(pace, Rate) for pace in self.paces)

    @property
    def host(self) -> Host | None:
        """The host this worker is on; None on this machine's loopback."""
        return self.hosts[self.slot.node] if self.hosts else None

    @property
    def server_addresses(self) -> list[str] | None:
        """Where servers listen, each on its node; None on one node."""
        return [self.hosts[slot.node].address for slot in self.placement.servers] if self.hosts else None

    @property
    def log(self) -> Path:
        """The file for this worker's output."""
        return log_of(self.scratch, self.rank)

    @property
    def series(self) -> Path:
        """Where this worker writes its series."""
        return series_of(self.scratch, self.rank)


@dataclass(frozen=True)
class Handles:
    """Open sockets and connections that only rank 0 receives, because each must have one owner."""

    listener: socket.socket | None = None
    """Socket for the store, on loopback or on the address of rank 0's host."""

    server_connections: "list[Connection[bytes, bytes]]" = field(default_factory=list)
    """Connections to servers that wait for their configuration."""


def log_of(scratch: Path, rank: int) -> Path:
    """Where a worker's output goes."""
    return scratch / f"worker-{rank}.log"


def series_of(scratch: Path, rank: int) -> Path:
    """Where a worker's series go."""
    return scratch / f"worker-{rank}.npz"

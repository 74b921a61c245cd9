"""Where processes run: slots on devices, planned before anything is started."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Slot:
    """Where one process runs."""

    device: str
    """`cpu:0`, `cpu:2-3` (cores), `cuda:1` or `emulated:2080ti:1`."""

    cores: tuple[int, ...] = ()
    """Cores the process is pinned to; empty: not pinned."""

    threads: int = 1
    node: int = 0


@dataclass(frozen=True)
class Placement:
    """All processes of a run and the devices they use."""

    kind: Literal["cpu", "cuda", "emulated"]
    backend: Literal["gloo", "nccl"]
    workers: tuple[Slot, ...]
    servers: tuple[Slot, ...] = ()
    server_place: Literal["shared", "own"] | None = None
    """Whether servers use the workers' devices or devices of their own; None without servers."""

    @property
    def devices(self) -> int:
        """How many devices are used, including those of servers."""
        return len({slot.device for slot in (*self.workers, *self.servers)})

    def local_rank(self, rank: int) -> int:
        """A worker's number among the workers of its node."""
        return sum(slot.node == self.workers[rank].node for slot in self.workers[:rank])


@dataclass(frozen=True)
class Demand:
    """What a run needs of the machine."""

    workers: int
    workers_per_device: int
    cores_per_device: int = 1
    nodes: int = 1
    servers: int = 0
    server_place: Literal["shared", "own"] | None = None


def fitting(workers: int, devices: int) -> str:
    """What to do where `workers` need more devices than there are; all devices of a run hold equally many workers."""
    shared = next(k for k in range(1, workers + 1) if workers % k == 0 and workers // k <= devices)
    used, below = workers // shared, workers - workers % devices
    added = f"add --workers-per-device {shared}"
    if used == devices:
        return added
    return f"{added}, which uses {used} of them, or use {below} or {below + devices} workers, which fill all of them"


def node_of(rank: int, workers: int, nodes: int) -> int:
    """The node of a rank: consecutive ranks share a node, and the first nodes may have one worker more."""
    each, more = divmod(workers, nodes)
    return rank // (each + 1) if rank < more * (each + 1) else (rank - more) // each

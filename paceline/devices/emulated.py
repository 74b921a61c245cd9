"""Emulated devices: forward and backward take as long as given figures say; parameters and exchange are real."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from paceline.devices.base import Demand, Placement, Slot, node_of
from paceline.errors import DeviceError
from paceline.grammar import require

PREFIX = "emulated:"
_NAMED = re.compile(r"n(0|[1-9][0-9]*)=(.*)")


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A device with only a known rate: the model's arithmetic decides how a step divides."""

    device: str
    units_per_second: float
    batch: int | None
    """Samples per step that the rate was measured with; None where unknown."""

    source: str


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """A profiled device: seconds of the parts of a step, and when each gradient is ready."""

    device: str
    batch: int
    forward_seconds: float
    backward_seconds: float
    update_seconds: float
    ready_seconds: Mapping[str, float]
    """Seconds since backward began, by name of the parameter."""

    source: str


Pace: TypeAlias = Rate | Profiled


def is_emulated(device: str) -> bool:
    """Whether a `--device` requests emulated devices."""
    return PREFIX in device


def names_of(device: str, nodes: int) -> tuple[str, ...]:
    """The device of each node: `emulated:2080ti` for all, or `n0=emulated:2080ti,n1=emulated:v100`."""
    named = _by_node(device)
    if not named:
        return (_name(device.strip()),) * nodes
    silent = [f"n{node}" for node in range(nodes) if node not in named]
    require(not silent, f"--device {device} leaves {', '.join(silent)} without a device: name every node of the run.")
    return tuple(named[node] for node in range(nodes))


def require_nodes(device: str, nodes: int) -> None:
    """Refuse a device for a node that does not exist."""
    for node in _by_node(device):
        there = "the only node is n0" if nodes == 1 else f"the nodes are n0 to n{nodes - 1}"
        require(node < nodes, f"--device {device} names n{node}: {there}.")


def _by_node(device: str) -> dict[int, str]:
    """Devices by the node's number; empty where all nodes have the same."""
    items = [item.strip() for item in device.split(",")]
    if len(items) == 1 and not _NAMED.fullmatch(items[0]):
        return {}
    named: dict[int, str] = {}
    for item in items:
        match = _NAMED.fullmatch(item)
        require(
            match is not None,
            f"--device {device}: {item!r} names no node; write emulated:NAME, or n0=emulated:NAME,n1=emulated:NAME.",
        )
        assert match is not None
        require(int(match[1]) not in named, f"--device {device} gives n{match[1]} two devices: keep one.")
        named[int(match[1])] = _name(match[2])
    return named


def _name(text: str) -> str:
    require(
        text.startswith(PREFIX) and len(text) > len(PREFIX),
        f"--device {text} is not an emulated device: write emulated:2080ti, emulated:rate=500 or emulated:FILE.json.",
    )
    return text.removeprefix(PREFIX)


def place(demand: Demand, names: Sequence[str], cores: tuple[int, ...]) -> Placement:
    """A device for every worker and server slots; their work on the host may run on any of its cores."""
    if demand.cores_per_device != 1:
        raise DeviceError(
            f"--cores-per-device {demand.cores_per_device}: emulated devices have no cores of their own. Leave it out."
        )
    if demand.workers_per_device != 1:
        raise DeviceError(
            f"--workers-per-device {demand.workers_per_device}: workers cannot share an emulated device. "
            "Give every worker its own."
        )
    homes = [node_of(rank, demand.workers, demand.nodes) for rank in range(demand.workers)]
    workers = tuple(_slot(names[node], rank, cores, node) for rank, node in enumerate(homes))
    if not demand.servers:
        return Placement("emulated", "gloo", workers)
    chosen = demand.server_place or "shared"
    servers = []
    for number in range(demand.servers):
        node = number % demand.nodes
        here = [slot for slot in workers if slot.node == node]
        own = _slot(names[node], demand.workers + number, cores, node)
        servers.append(own if chosen == "own" else here[number // demand.nodes % len(here)])
    return Placement("emulated", "gloo", workers, tuple(servers), chosen)


def _slot(name: str, number: int, cores: tuple[int, ...], node: int) -> Slot:
    return Slot(f"{PREFIX}{name}:{number}", cores, threads=1, node=node)

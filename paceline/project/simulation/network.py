"""A network of nodes: what moving bytes costs on links and on cores."""

import math
from dataclasses import dataclass

from paceline.grammar import require
from paceline.network import Network
from paceline.traffic.base import Transfer

TCP_SHARE = 0.92
"""Of a link's nominal bandwidth, what TCP makes usable: measured on 10 Gbit/s."""

FLOW_BYTES_PER_SECOND = 22e9 / 8
"""What one flow reaches however fast the link: 18–26 % of 100 Gbit/s were measured."""

TCP_PASSES = 2.7
"""Processor time of sending, or receiving, a byte by gloo's TCP, in passes: 0.23 ns where a copy takes 0.084."""

MESSAGE_PASSES = 4.2
"""The same of a message to or from a server by ZeroMQ: from steps of the VAE and of ResNet-18, beside gloo's."""

ADD_PASSES = 0.5
"""Memory passes to add what a ring receives: of each two bytes one is added."""


@dataclass(frozen=True)
class LinkModel:
    """One direction of a link, as training sees it: what is left after protocols, and the time of an empty message."""

    bytes_per_second: float = math.inf
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        require(self.bytes_per_second > 0, f"A link of {self.bytes_per_second} bytes/s moves nothing.")
        finite = 0 <= self.latency_seconds < math.inf
        require(finite, f"A latency of {self.latency_seconds} s is not valid: it must be at least 0 and finite.")


@dataclass(frozen=True, kw_only=True)
class SimulatedNetwork:
    """Nodes that each have one link to all others, which their workers share; and a link inside each node."""

    between: LinkModel = LinkModel()
    inside: LinkModel = LinkModel()
    """Without limits where it is memory: what that costs is work of the cores, in `HostCost`."""

    in_flight: int = 2
    """Messages under way at once; gloo has two threads."""

    def __post_init__(self) -> None:
        require(self.in_flight >= 1, f"in_flight={self.in_flight} is not valid: it must be at least 1.")

    @classmethod
    def of(cls, network: Network) -> "SimulatedNetwork":
        """The links that are left to training; `efficiency` is the usable share of both bandwidths.

        Without it TCP's share is taken, and no more than what one flow reaches.
        """
        named = ", ".join(f"n{node}=" for node in sorted(network.named))
        require(not named, f"{network} gives {named} a link of its own: to a projection all nodes are alike.")
        assert network.bandwidth is not None, "as none is named"
        inside = math.inf if network.inside is None else _usable(network.inside, network.efficiency)
        return cls(
            between=LinkModel(_usable(network.bandwidth, network.efficiency), network.latency or 0.0),
            inside=LinkModel(inside, network.inside_latency or 0.0),
            in_flight=cls.in_flight if network.in_flight is None else network.in_flight,
        )


def _usable(bits_per_second: float, share: float | None) -> float:
    """Bytes a second that are left for training."""
    nominal = bits_per_second / 8
    return nominal * share if share is not None else min(nominal * TCP_SHARE, FLOW_BYTES_PER_SECOND)


@dataclass(frozen=True)
class Layout:
    """How workers are spread: nodes filled one after the other, or evenly over so many."""

    workers: int
    workers_per_node: int
    over_nodes: int | None = None

    def __post_init__(self) -> None:
        require(self.workers >= 1, f"{self.workers} workers are none: give at least 1.")
        require(self.workers_per_node >= 1, f"{self.workers_per_node} workers per node are none: give at least 1.")

    @classmethod
    def even(cls, workers: int, nodes: int) -> "Layout":
        """Spread evenly over so many nodes."""
        require(1 <= nodes <= workers, f"{workers} workers cannot be on {nodes} nodes: give 1 to {workers} nodes.")
        return cls(workers, -(-workers // nodes), nodes)

    @property
    def nodes(self) -> int:
        """How many have workers."""
        return self.over_nodes or -(-self.workers // self.workers_per_node)

    @property
    def fullest(self) -> int:
        """Workers of the fullest node: those that share one link."""
        return min(self.workers, self.workers_per_node)


@dataclass(frozen=True)
class HostCost:
    """What an exchange costs the core that computes too; nothing where another engine moves the bytes."""

    pass_seconds_per_byte: float = 0.0
    """One pass over memory: a copy, an addition, a conversion. What else is done with a byte counts in passes."""

    message_seconds: float = 0.0
    """Of each round of a message, however small."""


@dataclass(frozen=True)
class Load:
    """What one message asks for, each alone: the network's latency, its bandwidth and the core."""

    latency_seconds: float = 0.0
    wire_seconds: float = 0.0
    host_seconds: float = 0.0

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.latency_seconds + other.latency_seconds,
            self.wire_seconds + other.wire_seconds,
            self.host_seconds + other.host_seconds,
        )


def collective_load(transfer: Transfer, layout: Layout, network: SimulatedNetwork, host: HostCost) -> Load:
    """What a collective asks for, by its pattern.

    ring: 2(n−1) rounds of S/n bytes. broadcast: its second half, n−1 rounds. gather: n−1 rounds of S bytes.
    In order of rank one hop of each node leaves it, so a node's link carries one slice a round; the rounds go at the
    pace of the slowest link. Latency is the mean over the hops.
    Host: every byte sent is sent and its counterpart received by TCP, inside a node too, and in a ring half is added.
    """
    n = layout.workers
    if n == 1 or not transfer.payload_bytes:
        return Load()
    rounds = (2 if transfer.pattern == "ring" else 1) * (n - 1)
    sent = rounds * transfer.payload_bytes / (1 if transfer.pattern == "gather" else n)
    leaving = layout.nodes / n if layout.nodes > 1 else 0.0
    latency = leaving * network.between.latency_seconds + (1 - leaving) * network.inside.latency_seconds
    slowest = network.inside.bytes_per_second
    if layout.nodes > 1:
        slowest = min(network.between.bytes_per_second, slowest if layout.fullest > 1 else math.inf)
    passes = 2 * TCP_PASSES + (ADD_PASSES if transfer.pattern == "ring" else 0.0)
    return Load(
        latency_seconds=rounds * latency,
        wire_seconds=sent / slowest,
        host_seconds=rounds * host.message_seconds + passes * sent * host.pass_seconds_per_byte,
    )

"""A network of nodes: the cost of moving bytes on links and on cores."""

import math
from dataclasses import dataclass

from paceline.grammar import require
from paceline.network import Network
from paceline.traffic.base import Transfer

TCP_SHARE = 0.92
"""The share of a link's nominal bandwidth that TCP makes usable, measured on 10 Gbit/s."""

FLOW_BYTES_PER_SECOND = 22e9 / 8
"""The rate that one flow reaches at most on any link: it reached 18–26 % of 100 Gbit/s."""

TCP_PASSES = 2.7
"""CPU time to send or receive a byte by gloo's TCP, in memory passes: 0.23 ns where a copy takes 0.084 ns."""

MESSAGE_PASSES = 4.2
"""The same for a message to or from a server by ZeroMQ, from steps of the VAE and ResNet-18 compared with gloo."""

ADD_PASSES = 0.5
"""Memory passes to add the data that a ring receives: half of the bytes are added."""


@dataclass(frozen=True)
class LinkModel:
    """One direction of a link as training sees it: the rate after protocol overhead, and the latency."""

    bytes_per_second: float = math.inf
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        rate = self.bytes_per_second
        require(rate > 0, f"A link of {rate} bytes/s is not valid: it must be above 0.")
        finite = 0 <= self.latency_seconds < math.inf
        require(finite, f"A latency of {self.latency_seconds} s is not valid: it must be at least 0 and finite.")


@dataclass(frozen=True, kw_only=True)
class SimulatedNetwork:
    """Nodes with one link each to all others, shared by the node's workers, and a link inside each node."""

    between: LinkModel = LinkModel()
    inside: LinkModel = LinkModel()
    """Unlimited where it is memory: `HostCost` counts that cost as work of the cores."""

    in_flight: int = 2
    """Messages in flight at once; gloo has two threads."""

    def __post_init__(self) -> None:
        require(self.in_flight >= 1, f"in_flight={self.in_flight} is not valid: it must be at least 1.")

    @classmethod
    def of(cls, network: Network) -> "SimulatedNetwork":
        """The links with the bandwidth that training can use; `efficiency` is the usable share of both bandwidths.

        Without it, the share of TCP applies, and at most the rate of one flow.
        """
        named = ", ".join(f"n{node}=" for node in sorted(network.named))
        rule = "a projection assumes equal nodes; give one bandwidth for all"
        require(not named, f"{network} gives {named} a link of its own: {rule}.")
        assert network.bandwidth is not None, "as none is named"
        inside = math.inf if network.inside is None else _usable(network.inside, network.efficiency)
        return cls(
            between=LinkModel(_usable(network.bandwidth, network.efficiency), network.latency or 0.0),
            inside=LinkModel(inside, network.inside_latency or 0.0),
            in_flight=cls.in_flight if network.in_flight is None else network.in_flight,
        )


def _usable(bits_per_second: float, share: float | None) -> float:
    """The bandwidth that training can use, in bytes per second."""
    nominal = bits_per_second / 8
    return nominal * share if share is not None else min(nominal * TCP_SHARE, FLOW_BYTES_PER_SECOND)


@dataclass(frozen=True)
class Layout:
    """How workers are placed: nodes are filled one after the other, or workers are spread evenly."""

    workers: int
    workers_per_node: int
    over_nodes: int | None = None

    def __post_init__(self) -> None:
        require(self.workers >= 1, f"{self.workers} workers is not valid: give at least 1.")
        require(self.workers_per_node >= 1, f"{self.workers_per_node} workers per node is not valid: give at least 1.")

    @classmethod
    def even(cls, workers: int, nodes: int) -> "Layout":
        """Workers spread evenly over this number of nodes."""
        require(1 <= nodes <= workers, f"{workers} workers cannot be on {nodes} nodes: give 1 to {workers} nodes.")
        return cls(workers, -(-workers // nodes), nodes)

    @property
    def nodes(self) -> int:
        """The number of nodes that have workers."""
        return self.over_nodes or -(-self.workers // self.workers_per_node)

    @property
    def fullest(self) -> int:
        """Workers on the fullest node, which share one link."""
        return min(self.workers, self.workers_per_node)


@dataclass(frozen=True)
class HostCost:
    """The cost of an exchange on the core that also computes; zero where another engine moves the bytes."""

    pass_seconds_per_byte: float = 0.0
    """One pass over memory: a copy, an addition or a conversion. Other work per byte is counted in passes."""

    message_seconds: float = 0.0
    """CPU time of each round of a message, whatever its size."""


@dataclass(frozen=True)
class Load:
    """The time that one message needs of each resource alone: latency, bandwidth and the core."""

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
    """The load of a collective, by its pattern.

    ring: 2(n−1) rounds of S/n bytes. broadcast: its second half, n−1 rounds. gather: n−1 rounds of S bytes.
    Ranks are in order, so one hop leaves each node, and a node's link carries one slice per round. The slowest link
    sets the pace of the rounds. Latency is the mean over the hops.
    Host: TCP sends every byte and receives its counterpart, inside a node too; a ring also adds half of the bytes.
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

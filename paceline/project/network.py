"""A network of nodes: what moving bytes costs on links and on cores."""

import math
from dataclasses import dataclass

from paceline.grammar import choose, require
from paceline.traffic.base import Transfer
from paceline.units import parse_bandwidth, parse_seconds

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
class Link:
    """One direction of a link, as training sees it: what is left after protocols, and the time of an empty message."""

    bytes_per_second: float = math.inf
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        require(self.bytes_per_second > 0, f"A link of {self.bytes_per_second} bytes/s moves nothing.")
        finite = 0 <= self.latency_seconds < math.inf
        require(finite, f"A latency of {self.latency_seconds} s is not valid: it must be at least 0 and finite.")


@dataclass(frozen=True, kw_only=True)
class Network:
    """Nodes that each have one link to all others, which their workers share; and a link inside each node."""

    between: Link = Link()
    inside: Link = Link()
    """Without limits where it is memory: what that costs is work of the cores, in `Host`."""

    in_flight: int = 2
    """Messages under way at once; gloo has two threads."""

    def __post_init__(self) -> None:
        require(self.in_flight >= 1, f"in_flight={self.in_flight} is not valid: it must be at least 1.")

    @classmethod
    def parse(cls, text: str) -> "Network":
        """`1Gbps,latency=50us`, and if wanted `inside=`, `inside_latency=`, `efficiency=`, `in_flight=`.

        `efficiency` is the usable share of both bandwidths. Without it TCP's is taken, and what one flow reaches.
        """
        bandwidth, *options = [item.strip() for item in text.split(",")]
        given: dict[str, str] = {}
        for item in options:
            key, equals, value = item.partition("=")
            keys = ("latency", "inside", "inside_latency", "efficiency", "in_flight")
            choose(key, keys, f"option of the network {text!r}")
            require(bool(equals and value) and key not in given, f"{item!r} in {text!r}: write {key}=… once.")
            given[key] = value
        share = _share(given.get("efficiency"), text)
        inside = _usable(given["inside"], share) if "inside" in given else math.inf
        return cls(
            between=Link(_usable(bandwidth, share), parse_seconds(given.get("latency", "0s"))),
            inside=Link(inside, parse_seconds(given.get("inside_latency", "0s"))),
            in_flight=_whole(given.get("in_flight", "2"), text),
        )


def _usable(bandwidth: str, share: float | None) -> float:
    """Bytes a second that are left for training."""
    nominal = parse_bandwidth(bandwidth) / 8
    require(nominal > 0, f"A bandwidth of {bandwidth} is not valid: it must be above 0.")
    return nominal * share if share is not None else min(nominal * TCP_SHARE, FLOW_BYTES_PER_SECOND)


def _share(given: str | None, text: str) -> float | None:
    if given is None:
        return None
    try:
        share = float(given.removesuffix("%")) / (100 if given.endswith("%") else 1)
    except ValueError:
        share = math.nan
    require(0 < share <= 1, f"efficiency={given} in {text!r} is not valid: it must be above 0 and at most 1.")
    return share


def _whole(given: str, text: str) -> int:
    require(given.isdecimal(), f"in_flight={given} in {text!r} is not valid: it must be a whole number.")
    return int(given)


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
class Host:
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


def collective_load(transfer: Transfer, layout: Layout, network: Network, host: Host) -> Load:
    """A ring, or a broadcast as its second half: n−1 rounds, each of a slice of 1/n.

    Ring: 2(n−1) rounds of S/n bytes. In order of rank one hop of each node leaves it, so a node's link carries one
    slice a round; the rounds go at the pace of the slowest link. Latency is the mean over the hops.
    Host: every byte sent is sent and its counterpart received by TCP, inside a node too, and in a ring half is added.
    """
    n = layout.workers
    if n == 1 or not transfer.payload_bytes:
        return Load()
    rounds = (2 if transfer.pattern == "ring" else 1) * (n - 1)
    sent = rounds * transfer.payload_bytes / n
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

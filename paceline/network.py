"""The links between nodes as they are asked for: `1Gbps`, `1Gbps,n1=100Mbps`, `1Gbps,latency=50us`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.errors import SpecError
from paceline.grammar import require
from paceline.units import format_bandwidth, parse_bandwidth, parse_seconds

OFF_RATE = 0.03
"""How far a link may be from what was asked for before something is said about it."""

LEAST_BITS_PER_SECOND = 1e6
MOST_BITS_PER_SECOND = 1e12
_NODE = re.compile(r"n(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Network:
    """Every node's link to the switch: the same rate in both directions."""

    bandwidth: float | None
    """Bits per second of the nodes that are not named; None where all are."""

    named: Mapping[int, float] = field(default_factory=dict)
    latency: float | None = None
    """Seconds that are added to every way from a node to another; None: none are."""

    def __str__(self) -> str:
        every = [] if self.bandwidth is None else [format_bandwidth(self.bandwidth)]
        named = [f"n{node}={format_bandwidth(rate)}" for node, rate in sorted(self.named.items())]
        return ",".join([*every, *named, *([] if self.latency is None else [f"latency={self.latency * 1e6:g}us"])])

    def bits_per_second(self, node: int) -> float:
        """The rate of a node's link."""
        rate = self.named.get(node, self.bandwidth)
        assert rate is not None, f"checked when {self} was made for its nodes"
        return rate

    def slowed(self, slow_motion: float) -> "Network":
        """The links as they are really made, where everything is so many times slower."""
        every = None if self.bandwidth is None else self.bandwidth / slow_motion
        named = {node: rate / slow_motion for node, rate in self.named.items()}
        slowest = min(rate for rate in (every, *named.values()) if rate is not None)
        require(
            slowest >= LEAST_BITS_PER_SECOND,
            f"{self} in slow motion {slow_motion:g} is a link of {format_bandwidth(slowest)}: it must be at least "
            f"{format_bandwidth(LEAST_BITS_PER_SECOND)}. Use less --slow-motion.",
        )
        return Network(every, named, None if self.latency is None else self.latency * slow_motion)

    def check_nodes(self, nodes: int) -> None:
        """Refuse a network that names nodes that are not there, or leaves some without a bandwidth."""
        strangers = [f"n{node}" for node in sorted(self.named) if node >= nodes]
        require(not strangers, f"{self} names {', '.join(strangers)}: with {nodes} nodes they are n0 to n{nodes - 1}.")
        silent = [f"n{node}" for node in range(nodes) if node not in self.named] if self.bandwidth is None else []
        require(not silent, f"{self} leaves {', '.join(silent)} without a bandwidth: name them, or give one for all.")


def parse_network(text: str) -> Network:
    """A network as written; what no link can have is refused."""
    every: float | None = None
    named: dict[int, float] = {}
    latency: float | None = None
    for item in (item.strip() for item in text.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            require(
                every is None,
                f"{text!r} gives two bandwidths for all nodes: keep one. Of a study give each network by itself.",
            )
            every = _bandwidth(item)
        elif key == "latency":
            require(latency is None, f"{text!r} gives two latencies: keep one.")
            latency = parse_seconds(value)
            require(0 < latency <= 1, f"latency={value} is not valid: it must be above 0 and at most 1s.")
        elif match := _NODE.fullmatch(key):
            require(int(match[1]) not in named, f"{text!r} gives {key} two bandwidths: keep one.")
            named[int(match[1])] = _bandwidth(value)
        else:
            raise SpecError(f"{item!r} in {text!r} is not part of a network: write 1Gbps, n0=1Gbps or latency=50us.")
    require(every is not None or bool(named), f"{text!r} is not a network: it has no bandwidth; write it like 1Gbps.")
    return Network(every, named, latency)


def _bandwidth(text: str) -> float:
    rate = parse_bandwidth(text)
    require(
        rate >= LEAST_BITS_PER_SECOND,
        f"A bandwidth of {text} is not valid: it must be at least {format_bandwidth(LEAST_BITS_PER_SECOND)}.",
    )
    require(
        rate <= MOST_BITS_PER_SECOND,
        f"A bandwidth of {text} is not valid: no network has that; "
        f"use {format_bandwidth(MOST_BITS_PER_SECOND)} or less.",
    )
    return rate


@dataclass(frozen=True)
class Site:
    """Where runs take place: how many nodes there are, and the network between them unless a run says otherwise."""

    nodes: int = 1
    network: str | None = None
    delays: bool = False
    """Whether links can have a latency of choice."""

    @property
    def settings(self) -> dict[str, int | str]:
        """Settings that a run has here when it says nothing about them."""
        return {} if self.network is None else {"nodes": self.nodes, "network": self.network}

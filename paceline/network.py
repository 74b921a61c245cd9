"""Networks as the user writes them: `1Gbps`, `1Gbps,n1=100Mbps`, `1Gbps,latency=50us,inside=100Gbps`."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paceline.errors import SpecError
from paceline.grammar import require
from paceline.units import format_bandwidth, parse_bandwidth, parse_seconds

OFF_RATE = 0.03
"""How far a link may be from the requested rate before a warning reports it."""

LEAST_BITS_PER_SECOND = 1e6
MOST_BITS_PER_SECOND = 1e12
"""Bounds of a link that a testbed can make."""

_NODE = re.compile(r"n(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Network:
    """Every node's link to the switch, the same in both directions, and the link inside a node.

    A testbed makes such links, and a projection calculates with them; each refuses options that do not apply to it.
    """

    bandwidth: float | None
    """Bits per second of the nodes that are not named; None where all are."""

    named: Mapping[int, float] = field(default_factory=dict)
    """Testbed only: bits per second of nodes that differ, by their number."""

    latency: float | None = None
    """Seconds added to every packet from one node to another; None adds nothing."""

    inside: float | None = None
    """Projection only: bits per second of the link inside a node; None: memory, without a limit."""

    inside_latency: float | None = None
    """Projection only: seconds of an empty message inside a node."""

    efficiency: float | None = None
    """Projection only: the usable share of the bandwidth; None: what TCP leaves of it."""

    in_flight: int | None = None
    """Projection only: messages in flight at once; None: as many as gloo has."""

    def __str__(self) -> str:
        every = [] if self.bandwidth is None else [format_bandwidth(self.bandwidth)]
        named = [f"n{node}={format_bandwidth(rate)}" for node, rate in sorted(self.named.items())]
        given = {key: getattr(self, key) for key in _OPTIONS}
        options = [f"{key}={_OPTIONS[key].write(value)}" for key, value in given.items() if value is not None]
        return ",".join([*every, *named, *options])

    def bits_per_second(self, node: int) -> float:
        """The rate of a node's link."""
        rate = self.named.get(node, self.bandwidth)
        assert rate is not None, f"checked when {self} was made for its nodes"
        return rate

    def slowed(self, slow_motion: float) -> "Network":
        """The links to make when everything runs `slow_motion` times slower."""
        every = None if self.bandwidth is None else self.bandwidth / slow_motion
        named = {node: rate / slow_motion for node, rate in self.named.items()}
        slowest = min(rate for rate in (every, *named.values()) if rate is not None)
        require(
            slowest >= LEAST_BITS_PER_SECOND,
            f"{self} in slow motion {slow_motion:g} is a link of {format_bandwidth(slowest)}: it must be at least "
            f"{format_bandwidth(LEAST_BITS_PER_SECOND)}. Use less --slow-motion.",
        )
        latency = None if self.latency is None else self.latency * slow_motion
        return replace(self, bandwidth=every, named=named, latency=latency)

    def check_nodes(self, nodes: int) -> None:
        """Refuse a network that a testbed with this many nodes cannot make."""
        projected = [f"{key}=" for key in _OF_PROJECTIONS if getattr(self, key) is not None]
        require(
            not projected,
            f"{self}: {', '.join(projected)} is for projections only: a testbed's links are real. Leave it out.",
        )
        strangers = [f"n{node}" for node in sorted(self.named) if node >= nodes]
        require(not strangers, f"{self} names {', '.join(strangers)}: with {nodes} nodes they are n0 to n{nodes - 1}.")
        silent = [f"n{node}" for node in range(nodes) if node not in self.named] if self.bandwidth is None else []
        require(not silent, f"{self} leaves {', '.join(silent)} without a bandwidth: name them, or give one for all.")
        for rate in (self.bandwidth, *self.named.values()):
            _require_possible(rate)
        latency = self.latency
        require(
            latency is None or 0 < latency <= 1,
            f"{self}: its latency is not valid: it must be above 0 and at most 1s.",
        )


def _require_possible(rate: float | None) -> None:
    if rate is None:
        return
    asked = f"A bandwidth of {format_bandwidth(rate)} is not valid"
    least, most = format_bandwidth(LEAST_BITS_PER_SECOND), format_bandwidth(MOST_BITS_PER_SECOND)
    require(rate >= LEAST_BITS_PER_SECOND, f"{asked}: it must be at least {least}.")
    require(rate <= MOST_BITS_PER_SECOND, f"{asked}: it must be at most {most}.")


def parse_network(text: str) -> Network:
    """Parse a network; refuse anything that no network can have."""
    every: float | None = None
    named: dict[int, float] = {}
    options: dict[str, Any] = {}
    for item in (item.strip() for item in text.split(",")):
        key, equals, value = item.partition("=")
        if not equals and key not in _OPTIONS:
            require(
                every is None,
                f"{text!r} gives two bandwidths for all nodes: keep one. In a study, repeat --network.",
            )
            every = _bandwidth(item)
        elif match := _NODE.fullmatch(key):
            require(int(match[1]) not in named, f"{text!r} gives {key} two bandwidths: keep one.")
            named[int(match[1])] = _bandwidth(value)
        elif key in _OPTIONS:
            require(bool(value) and key not in options, f"{item!r} in {text!r}: write {key}=… once.")
            options[key] = _OPTIONS[key].read(value)
        else:
            valid = ", ".join(f"{name}=…" for name in _OPTIONS)
            raise SpecError(f"{item!r} in {text!r} is not part of a network: write 1Gbps, n0=1Gbps, or {valid}.")
    require(every is not None or bool(named), f"{text!r} is not a network: it has no bandwidth; write it like 1Gbps.")
    return Network(every, named, **options)


@dataclass(frozen=True)
class _Option:
    """How an optional part of a network is read and written."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]


def _bandwidth(text: str) -> float:
    rate = parse_bandwidth(text)
    require(rate > 0, f"A bandwidth of {text} is not valid: it must be above 0.")
    return rate


def _latency(text: str) -> float:
    seconds = parse_seconds(text)
    require(
        seconds == 0 or not text.strip()[-1:].isdigit(),
        f"A latency of {text} has no unit: write {text}us, {text}ms or {text}s.",
    )
    return seconds


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    require(0 < share <= 1, f"efficiency={text} is not valid: it must be above 0 and at most 1.")
    return share


def _whole(text: str) -> int:
    require(text.isdecimal(), f"in_flight={text} is not valid: it must be a whole number.")
    require(int(text) >= 1, f"in_flight={text} is not valid: it must be at least 1.")
    return int(text)


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:g}us"


_OPTIONS: Mapping[str, _Option] = {
    "latency": _Option(_latency, _microseconds),
    "inside": _Option(_bandwidth, format_bandwidth),
    "inside_latency": _Option(_latency, _microseconds),
    "efficiency": _Option(_share, "{:g}".format),
    "in_flight": _Option(_whole, str),
}
_OF_PROJECTIONS = tuple(key for key in _OPTIONS if key != "latency")


@dataclass(frozen=True)
class Site:
    """Where runs take place: how many nodes there are, and the network between them unless a run sets another."""

    nodes: int = 1
    network: str | None = None
    delays: bool = False
    """Whether links can have a chosen latency."""

"""Links between nodes as measured before and after a run, each direction separately."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.network import OFF_RATE
from paceline.numbers import significant
from paceline.record_parts import MeasuredLink, MeasuredNetwork
from paceline.units import human_seconds

PAYLOAD_SHARE = 1448 / 1514
"""Share of a link's rate that is TCP payload; the rest is headers down to Ethernet."""


def rates(link: MeasuredLink) -> tuple[float, float]:
    """Bits per second to the switch and from it."""
    return link.sent_bits_per_second, link.received_bits_per_second


def slowest(links: Sequence[MeasuredLink]) -> float:
    """Bits per second of the slowest direction of all links."""
    return min(rate for link in links for rate in rates(link))


def in_words(links: Sequence[MeasuredLink]) -> str:
    """The slowest and the fastest direction and the longest latency, as a text."""
    carried = [rate for link in links for rate in rates(link)]
    measured = " to ".join(dict.fromkeys(significant(rate / 1e6) for rate in (min(carried), max(carried))))
    return f"{measured} Mbit/s, latency up to {human_seconds(max(link.latency_seconds for link in links))}"


def link_rate(bits_per_second: float) -> str:
    """`99848479.6` → `"99.85 Mbit/s"`; a link on which nothing arrives carries `nothing`."""
    return f"{significant(bits_per_second / 1e6)} Mbit/s" if bits_per_second else "nothing"


def off_rate(network: MeasuredNetwork | None) -> list[tuple[MeasuredLink, float]]:
    """Links that missed their requested rate, with the rate of their worse direction."""
    missed = []
    for link in network.nodes if network is not None else ():
        asked = link.asked_bits_per_second
        worst = max(rates(link), key=lambda rate: abs(rate - asked))
        if abs(worst - asked) > OFF_RATE * asked:
            missed.append((link, worst))
    return missed


_SLOW = 0.7
"""A link below this share of what it carried before, or of what the others carry, is slow."""


@dataclass(frozen=True)
class SlowLink:
    """A link that carries much less than it should."""

    node: int
    bits_per_second: float
    """What its slower direction carries: measured after the run where it was; 0 where nothing arrives."""

    usual_bits_per_second: float
    """What it carried before the run, or what the other links carry."""

    changed: bool
    """Whether it became slower during the run; otherwise it was slower than the others from the beginning."""

    sent_bytes: float | None
    """What its busier direction carried during the run; None where it was not counted."""


def slow_link(network: MeasuredNetwork | None) -> SlowLink | None:
    """The link that is slowest compared with its rate before the run, or with the other links; None if none is slow."""
    if network is None or len(network.nodes) < 2:
        return None
    after = [_after(link) for link in network.nodes]
    slow = []
    for position, link in enumerate(network.nodes):
        others = statistics.median(rate for other, rate in enumerate(after) if other != position)
        before = min(rates(link))
        # A busy machine slows all links alike: then this one is compared with the others only.
        steady = _steady(network.nodes, but=position)
        usual = max(others, before) if steady else others
        if after[position] < _SLOW * usual:
            carried = float(max(link.use.sent_bytes, link.use.received_bytes)) if link.use is not None else None
            slow.append(SlowLink(link.node, after[position], usual, after[position] < _SLOW * before, carried))
    return min(slow, key=lambda one: one.bits_per_second / one.usual_bits_per_second, default=None)


def _after(link: MeasuredLink) -> float:
    """The slower direction after the run, or before it where it was not measured again."""
    if link.after is None:
        return min(rates(link))
    return min(link.after.sent_bits_per_second, link.after.received_bits_per_second)


def _steady(nodes: Sequence[MeasuredLink], *, but: int) -> bool:
    """Whether the other links carry after the run what they carried before."""
    others = [link for position, link in enumerate(nodes) if position != but]
    return statistics.median(_after(link) / min(rates(link)) for link in others) >= _SLOW

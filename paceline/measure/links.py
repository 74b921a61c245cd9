"""Links between nodes as they were measured before a run, each direction by itself."""

from collections.abc import Sequence

from paceline.network import OFF_RATE
from paceline.numbers import significant
from paceline.record_parts import MeasuredLink, MeasuredNetwork
from paceline.units import human_seconds

PAYLOAD_SHARE = 1448 / 1514
"""Of what a link carries, what TCP has to carry: the rest are headers down to Ethernet's."""


def rates(link: MeasuredLink) -> tuple[float, float]:
    """Bits per second, to the switch and from it."""
    return link.sent_bits_per_second, link.received_bits_per_second


def slowest(links: Sequence[MeasuredLink]) -> float:
    """Bits per second of the way that carried least."""
    return min(rate for link in links for rate in rates(link))


def in_words(links: Sequence[MeasuredLink]) -> str:
    """What the slowest and the fastest way carried, and the longest latency."""
    carried = [rate for link in links for rate in rates(link)]
    measured = " to ".join(dict.fromkeys(significant(rate / 1e6) for rate in (min(carried), max(carried))))
    return f"{measured} Mbit/s, latency up to {human_seconds(max(link.latency_seconds for link in links))}"


def off_rate(network: MeasuredNetwork | None) -> list[tuple[MeasuredLink, float]]:
    """Links that did not carry what was asked for, and what the worse way did; None is a run without links."""
    found = []
    for link in network.nodes if network is not None else ():
        asked = link.asked_bits_per_second
        worst = max(rates(link), key=lambda rate: abs(rate - asked))
        if abs(worst - asked) > OFF_RATE * asked:
            found.append((link, worst))
    return found

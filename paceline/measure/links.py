"""Links between nodes as measured before a run, each direction separately."""

from collections.abc import Sequence

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


def off_rate(network: MeasuredNetwork | None) -> list[tuple[MeasuredLink, float]]:
    """Links that missed their requested rate, with the rate of their worse direction."""
    missed = []
    for link in network.nodes if network is not None else ():
        asked = link.asked_bits_per_second
        worst = max(rates(link), key=lambda rate: abs(rate - asked))
        if abs(worst - asked) > OFF_RATE * asked:
            missed.append((link, worst))
    return missed

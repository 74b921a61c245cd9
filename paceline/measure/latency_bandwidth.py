"""Fit latency and bandwidth of a link to messages of different sizes: seconds = latency + bytes ÷ bandwidth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

DIFFERENT_SIZES = 2.0
"""Smallest ratio of the largest to the smallest message that separates latency from bandwidth."""


@dataclass(frozen=True)
class Transmission:
    """One message: when it could start and when it ended, in seconds."""

    payload_bytes: float
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class LatencyBandwidth:
    """The fitted line: seconds of a message against its bytes."""

    latency_seconds: float
    seconds_per_byte: float


def service_seconds(transmissions: Sequence[Transmission]) -> list[float]:
    """Seconds for which each message occupied the link, in the order given.

    Messages are sent one after the other: each is served from its start or from the end of the previous one, whichever
    is later. Two may be in flight at once, but they share the link.
    """
    taken, before = [0.0] * len(transmissions), -np.inf
    for index in sorted(range(len(transmissions)), key=lambda i: transmissions[i].end_seconds):
        each = transmissions[index]
        taken[index] = max(0.0, each.end_seconds - max(each.start_seconds, before))
        before = max(before, each.end_seconds)
    return taken


def fit_line(sizes: Iterable[float], seconds: Iterable[float]) -> LatencyBandwidth | None:
    """Fit by least squares, through the origin where latency would be negative; None where sizes hardly differ."""
    x, y = np.array(list(sizes), float), np.array(list(seconds), float)
    if not len(x) or x.max() < DIFFERENT_SIZES * x.min():
        return None
    slope, intercept = np.polyfit(x, y, 1)
    if intercept <= 0:
        slope, intercept = x @ y / (x @ x), 0.0
    return LatencyBandwidth(float(intercept), max(0.0, float(slope)))

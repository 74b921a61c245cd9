"""Moments as they are noted during a step, and as seconds of the node's common clock when they are read."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Tick: TypeAlias = Any
"""What `now` gave: seconds on a host, an event on a GPU."""


class Ticks(Protocol):
    """Notes moments cheaply and tells later when they were."""

    behind: int
    """How many steps later moments are read, so that reading them does not wait for the device."""

    def now(self) -> Tick:
        """This moment."""

    def seconds(self, ticks: Sequence[Tick]) -> list[float]:
        """When those moments were, in seconds of the node's monotonic clock."""


class HostTicks:
    """The host computes: a moment is the time."""

    behind = 0

    def __init__(self) -> None:
        self.now = time.perf_counter

    def seconds(self, ticks: Sequence[float]) -> list[float]:
        """They are seconds already."""
        return list(ticks)


class Event(Protocol):
    """What a GPU passes in its stream: `torch.cuda.Event(enable_timing=True)`."""

    def record(self) -> None:
        """Put it into the current stream."""

    def synchronize(self) -> None:
        """Return when the device has passed it."""

    def elapsed_time(self, later: Any) -> float:
        """Milliseconds until `later`."""


class DeviceTicks:
    """A GPU computes: a moment is an event in its stream, so that noting it does not wait for the device.

    Each event is read against the one before it: elapsed_time is a 32-bit number of milliseconds, which from the
    beginning of a long run would be too coarse.
    """

    behind = 1

    def __init__(self, event: Callable[[], Event]) -> None:
        self._event = event
        self._last = self.now()
        self._last.synchronize()
        self._last_seconds = time.perf_counter()

    def now(self) -> Event:
        """An event in the stream."""
        event = self._event()
        event.record()
        return event

    def seconds(self, ticks: Sequence[Event]) -> list[float]:
        """Waits for the last of them."""
        moments = []
        for tick in ticks:
            tick.synchronize()
            self._last_seconds += self._last.elapsed_time(tick) / 1e3
            self._last = tick
            moments.append(self._last_seconds)
        return moments

"""Note moments during a step, and convert them to seconds of the node's clock later."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

Tick: TypeAlias = Any
"""What `now` returns: seconds on a host, an event on a GPU."""


class Ticks(Protocol):
    """Notes moments cheaply, and converts them to times later."""

    behind: int
    """How many steps later moments are read, so that reading them does not wait for the device."""

    def now(self) -> Tick:
        """Note this moment."""

    def seconds(self, ticks: Sequence[Tick]) -> list[float]:
        """When those moments were, in seconds of the node's monotonic clock."""


class HostTicks:
    """Moments on a host that computes: the time itself."""

    behind = 0

    def __init__(self) -> None:
        self.now = time.perf_counter

    def seconds(self, ticks: Sequence[float]) -> list[float]:
        """Return them unchanged: they are seconds already."""
        return list(ticks)


class Event(Protocol):
    """An event in a GPU's stream: `torch.cuda.Event(enable_timing=True)`."""

    def record(self) -> None:
        """Put it into the current stream."""

    def synchronize(self) -> None:
        """Return when the device has passed it."""

    def elapsed_time(self, later: Any) -> float:
        """Milliseconds until `later`."""


class DeviceTicks:
    """Moments on a GPU: events in its stream, so that noting one does not wait for the device.

    Each event is read relative to the previous one: elapsed_time is a 32-bit number of milliseconds, which would be
    too coarse if counted from the beginning of a long run.
    """

    behind = 1

    def __init__(self, event: Callable[[], Event]) -> None:
        self._event = event
        self._last = self.now()
        self._last.synchronize()
        self._last_seconds = time.perf_counter()

    def now(self) -> Event:
        """Record an event in the stream."""
        event = self._event()
        event.record()
        return event

    def seconds(self, ticks: Sequence[Event]) -> list[float]:
        """Convert events to seconds; waits for the last of them."""
        moments = []
        for tick in ticks:
            tick.synchronize()
            self._last_seconds += self._last.elapsed_time(tick) / 1e3
            self._last = tick
            moments.append(self._last_seconds)
        return moments

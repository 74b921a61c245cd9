"""One worker's step in time: backward and the exchange of its gradients, on one core and one link."""

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.project.simulation.network import Load


@dataclass(frozen=True)
class WireMessage:
    """A message that is sent once this much of backward's own work is done, and its load."""

    ready_seconds: float
    load: Load
    after: int | None = None
    """The index of a message that must end first: the previous round of a codec."""


@dataclass(frozen=True)
class Interval:
    """When a message was ready and when its exchange was over, in seconds since backward began."""

    ready_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Timeline:
    """When backward and every message ended, in seconds since backward began."""

    backward_seconds: float
    """Includes the exchange's own work on the core."""

    messages: tuple[Interval, ...]

    @property
    def exposed_seconds(self) -> float:
        """Exchange time after the end of backward."""
        last = max((m.end_seconds for m in self.messages), default=0.0)
        return max(0.0, last - self.backward_seconds)


def timeline(backward_seconds: float, messages: Sequence[WireMessage], in_flight: int) -> Timeline:
    """Messages are sent in the given order, at most `in_flight` at once.

    Core: a message's work is done when the message is ready, and backward pauses meanwhile. So the times of backward
    do not depend on the network, and neither more bandwidth nor less latency can delay anything.
    Link: first the latency, during which others may use the link. Then the bytes; senders share the link equally.
    A message ends when both core and link are done with it: they work on its slices in parallel. A message that waits
    for another one also delays those behind it, because all workers start them in the same order.
    """
    ready, on_core, delay = [], [], 0.0
    hidden = 0.0
    for message in messages:
        ready.append(message.ready_seconds + delay)
        delay += message.load.host_seconds
        on_core.append(message.ready_seconds + delay)
        if message.ready_seconds < backward_seconds:
            hidden = delay
    link = _link([WireMessage(when, m.load, m.after) for when, m in zip(ready, messages, strict=True)], in_flight)
    ends = tuple(Interval(r, max(core, end)) for r, core, end in zip(ready, on_core, link, strict=True))
    return Timeline(backward_seconds + hidden, ends)


@dataclass
class _Sending:
    """A message on the link."""

    index: int
    flows_from: float
    """When its latency ends."""

    left_seconds: float
    """The time that its remaining bytes need on the whole link."""


def _link(arrivals: Sequence[WireMessage], in_flight: int) -> list[float]:
    """When the link is done with each message; events are a start, the end of a latency and the end of a message."""
    ends = [0.0] * len(arrivals)
    sending: list[_Sending] = []
    now, following = 0.0, 0

    def may_start() -> bool:
        """Whether only its start time holds the next message back."""
        if following == len(arrivals) or len(sending) == in_flight:
            return False
        return all(s.index != arrivals[following].after for s in sending)

    while following < len(arrivals) or sending:
        while may_start() and arrivals[following].ready_seconds <= now:
            load = arrivals[following].load
            sending.append(_Sending(following, now + load.latency_seconds, load.wire_seconds))
            following += 1
        flowing = [s for s in sending if s.flows_from <= now]
        events = [s.flows_from for s in sending if s.flows_from > now]
        if may_start():
            events.append(arrivals[following].ready_seconds)
        first = min(flowing, key=lambda s: s.left_seconds, default=None)
        finish = now + first.left_seconds * len(flowing) if first else None
        until = min([*events, finish] if finish is not None else events)
        for s in flowing:
            s.left_seconds = max(0.0, s.left_seconds - (until - now) / len(flowing))
        now = until
        if first is not None and until == finish:
            ends[first.index] = now
            sending.remove(first)
    return ends

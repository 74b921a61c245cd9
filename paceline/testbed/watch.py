"""The links of one run: what they carried, how they changed, and which of them explains that a run stands still."""

import math
import time
from collections.abc import Sequence

from paceline.netns import Host
from paceline.network import Network
from paceline.record_parts import LinkAfter, LinkUse, MeasuredLink
from paceline.testbed import counters, links
from paceline.testbed.counters import Carried
from paceline.testbed.links import Link
from paceline.units import format_bandwidth

_LOOK_EVERY_SECONDS = 1.0
_QUIET_BYTES = 10_000
"""Less than this in one look is no exchange: retransmissions, and the addresses that hosts ask for."""

_BROKEN = 0.5
"""A link that carries less than this share of its rate before the run explains why a run stands still."""

_REMEDY = (
    "Only commands from outside change a testbed's links: look for `ip` and `tc` in its namespaces. "
    "The next run sets the links up anew."
)


class LinkWatch:
    """Watches the links of a run, from before its workers start until after they have ended."""

    def __init__(
        self, hosts: Sequence[Host], switch: Host, made: Network, before: Sequence[Link], slow_motion: float
    ) -> None:
        self.hosts = tuple(hosts)
        self._switch = switch
        self._made = made
        self._before = tuple(before)
        self._slow_motion = slow_motion
        self._first = self._last = counters.carried(hosts, switch)
        self._dropped = counters.dropped(hosts, switch)
        self._looked = time.monotonic()
        self._busy = [self._looked] * len(self.hosts)

    def look(self) -> None:
        """Note which links carry something; cheap, and at most once a second."""
        if time.monotonic() - self._looked < _LOOK_EVERY_SECONDS:
            return
        self._looked, now = time.monotonic(), counters.carried(self.hosts, self._switch)
        for node, (earlier, later) in enumerate(zip(self._last, now, strict=True)):
            if _bytes(later.since(earlier)) > _QUIET_BYTES:
                self._busy[node] = self._looked
        self._last = now

    def trouble(self) -> str | None:
        """Which links are cut or much slower than before the run, and what to do; call it when no worker runs."""
        silent = [time.monotonic() - busy for busy in self._busy]
        found = [self._sentence(link, silent[link.node]) for link in self._again() if self._share(link) < _BROKEN]
        return f"{' '.join(found)} {_REMEDY}" if found else None

    def finished(self) -> tuple[MeasuredLink, ...]:
        """All links for the record: measured before the run, counted during it, and measured again."""
        now, dropped = counters.carried(self.hosts, self._switch), counters.dropped(self.hosts, self._switch)
        used = [later.since(earlier) for earlier, later in zip(self._first, now, strict=True)]
        return tuple(
            MeasuredLink(
                node=before.node,
                asked_bits_per_second=before.asked_bits_per_second,
                sent_bits_per_second=before.sent_bits_per_second,
                received_bits_per_second=before.received_bits_per_second,
                latency_seconds=before.latency_seconds,
                use=LinkUse(
                    sent_bytes=used[node].sent_bytes,
                    received_bytes=used[node].received_bytes,
                    dropped_packets=dropped[node] - self._dropped[node],
                ),
                after=LinkAfter(
                    sent_bits_per_second=after.sent_bits_per_second,
                    received_bits_per_second=after.received_bits_per_second,
                    latency_seconds=after.latency_seconds if math.isfinite(after.latency_seconds) else None,
                ),
            )
            for node, (before, after) in enumerate(zip(self._before, self._again(), strict=True))
        )

    def _again(self) -> list[Link]:
        return [
            links.measure_again(node, self.hosts, self._switch, self._made.bits_per_second(node)).sped_up(
                self._slow_motion
            )
            for node in range(len(self.hosts))
        ]

    def _share(self, link: Link) -> float:
        """The slower direction as a share of what it was before the run."""
        before = self._before[link.node]
        return min(
            link.sent_bits_per_second / before.sent_bits_per_second,
            link.received_bits_per_second / before.received_bits_per_second,
        )

    def _sentence(self, link: Link, silent_seconds: float) -> str:
        now, before = (
            min(one.sent_bits_per_second, one.received_bits_per_second) for one in (link, self._before[link.node])
        )
        if now == 0:
            return f"The link of n{link.node} carried nothing for {silent_seconds:.0f} s: it is cut."
        was = format_bandwidth(before)
        return f"The link of n{link.node} carries {format_bandwidth(now)}; before the run it carried {was}."


def _bytes(count: Carried) -> int:
    return count.sent_bytes + count.received_bytes

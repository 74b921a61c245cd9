"""What the kernel counts on the links of a testbed: bytes in each direction, and dropped packets."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline import netns
from paceline.netns import Host
from paceline.testbed import tools

_RECEIVED_BYTES, _SENT_BYTES = 0, 8  # columns of /proc/net/dev


@dataclass(frozen=True)
class Carried:
    """Bytes that a node's link has carried since it was made."""

    sent_bytes: int
    received_bytes: int

    def since(self, before: "Carried") -> "Carried":
        """What was carried after an earlier count."""
        return Carried(self.sent_bytes - before.sent_bytes, self.received_bytes - before.received_bytes)


def carried(hosts: Sequence[Host], switch: Host) -> list[Carried]:
    """The bytes on every host's link, counted at the switch: what it receives is what the host has sent."""
    content = netns.inside(switch.namespace, Path("/proc/thread-self/net/dev").read_text)
    columns = {name.strip(): row.split() for name, _, row in (line.partition(":") for line in content.splitlines())}
    return [
        Carried(
            sent_bytes=int(columns[host.name][_RECEIVED_BYTES]), received_bytes=int(columns[host.name][_SENT_BYTES])
        )
        for host in hosts
    ]


def dropped(hosts: Sequence[Host], switch: Host) -> list[int]:
    """Packets that the shapers of every host's link have dropped, at both ends of the cable."""
    at_switch = _drops(switch)
    return [_drops(host).get(host.interface, 0) + at_switch.get(host.name, 0) for host in hosts]


def _drops(host: Host) -> dict[str, int]:
    """Packets dropped by the outermost shaper of each interface of a host."""
    shapers = json.loads(tools.answer("tc", host.namespace, ["-s", "-j", "qdisc", "show"]) or "[]")
    return {one["dev"]: int(one.get("drops", 0)) for one in shapers if one.get("root")}

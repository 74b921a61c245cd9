"""Nodes as hosts: a network namespace each, joined by a switch in another; all end with the process that made them."""

import contextlib
import dataclasses
import os

from paceline import netns
from paceline.errors import DeviceError
from paceline.grammar import require
from paceline.netns import Host
from paceline.network import Site, parse_network
from paceline.testbed import links, tools
from paceline.testbed.watch import LinkWatch

MOST_NODES = 253
"""Addresses of one private /24 network, without the switch's own."""

_ADDRESS = "10.77.0.{}"
_SWITCH = 254
_LINK = "eth0"
_CONGESTION_CONTROL = "cubic"  # Linux's default: flows share a link the same way whatever this machine is set to


def site(nodes: int, network: str) -> Site:
    """The site of a requested testbed; refused where no such testbed can be made."""
    require(nodes >= 2, f"--nodes {nodes} is not valid: a testbed needs at least 2. For one node, leave out testbed.")
    require(
        nodes <= MOST_NODES,
        f"--nodes {nodes} is not valid: the testbed's private network has addresses for {MOST_NODES}.",
    )
    asked = parse_network(network)
    asked.check_nodes(nodes)
    return Site(nodes, str(asked))


class Testbed:
    """Hosts and the switch between them, as long as the context lasts.

    The namespaces have no names: they are held by descriptors of this process, so the kernel removes them, and the
    links in them, however it ends. Testbeds are isolated from one another and from the machine's network.
    """

    def __init__(self, place: Site) -> None:
        self.site = place
        self.hosts: tuple[Host, ...] = ()
        self._switch: Host | None = None
        self._held = contextlib.ExitStack()

    def __enter__(self) -> "Testbed":
        tools.require_tools()
        with contextlib.ExitStack() as making:
            self._held = making
            self._switch = self._host("switch", _SWITCH, "bridge")
            self.hosts = tuple(self._host(f"n{node}", node + 1, _LINK) for node in range(self.site.nodes))
            self._wire(self._switch)
            self.site = dataclasses.replace(self.site, delays=tools.can_delay())
            self._held = making.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @property
    def switch(self) -> Host:
        """The host that all links lead to."""
        assert self._switch is not None, "inside the context"
        return self._switch

    def _host(self, name: str, number: int, interface: str) -> Host:
        try:
            descriptor = netns.make()
        except OSError as error:
            raise DeviceError(
                f"A testbed cannot run here: no network namespace can be made ({error.strerror}). In a container "
                "it needs --cap-add SYS_ADMIN --cap-add NET_ADMIN, or --privileged."
            ) from error
        self._held.callback(os.close, descriptor)
        return Host(name, netns.path_of(descriptor), _ADDRESS.format(number), interface)

    def _wire(self, switch: Host) -> None:
        """Connect every host to the switch."""
        lines = ["link add bridge type bridge", *_up(switch)]
        for host in self.hosts:
            lines.append(f"link add {host.name} type veth peer name {host.interface} netns {host.namespace}")
            lines.append(f"link set {host.name} master bridge addrgenmode none up")
        tools.run_batch("ip", switch.namespace, lines)
        for host in self.hosts:
            tools.run_batch("ip", host.namespace, _up(host))

    def prepare(self, network: str, nodes: int, slow_motion: float = 1.0) -> list[links.Link]:
        """Shape the links of the first `nodes` hosts for a run, measure them, and return them for its record.

        In slow motion the links are slower than requested; the returned figures are rescaled.
        """
        made = parse_network(network).slowed(slow_motion)
        used = self.hosts[:nodes]
        for node, host in enumerate(used):
            self._restore(host)
            links.shape(host, self.switch, made.bits_per_second(node), made.latency)
        return [link.sped_up(slow_motion) for link in links.measure(used, self.switch, made)]

    def watch(self, network: str, nodes: int, slow_motion: float = 1.0) -> LinkWatch:
        """Prepare the links for a run, and watch them from now on."""
        before = self.prepare(network, nodes, slow_motion)
        made = parse_network(network).slowed(slow_motion)
        return LinkWatch(self.hosts[:nodes], self.switch, made, before, slow_motion)

    def _restore(self, host: Host) -> None:
        """Bring a link up again that was taken down during an earlier run."""
        tools.run_batch("ip", self.switch.namespace, [f"link set {host.name} up"])
        tools.run_batch("ip", host.namespace, [f"link set {host.interface} up", _route(host)])


def _up(host: Host) -> list[str]:
    """Commands that give a host its address, and a loopback for traffic on one node."""
    return [
        "link set lo up",
        f"link set {host.interface} addrgenmode none",
        f"addr add {host.address}/24 dev {host.interface}",
        f"link set {host.interface} up",
        _route(host),
    ]


def _route(host: Host) -> str:
    net = _ADDRESS.format(0)
    return f"route replace {net}/24 dev {host.interface} src {host.address} congctl {_CONGESTION_CONTROL}"

"""Shape links to a chosen rate in both directions, and measure what they really carry."""

import math
import socket
import statistics
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from paceline import netns
from paceline.netns import Host
from paceline.network import OFF_RATE, Network
from paceline.testbed import tools

# What may leave at once after a pause: more flatters small exchanges. Packets that TCP leaves to the card to cut must
# be smaller, headers of the pieces included: the shaper would cut them, at a price that busy cores cannot pay.
_BURST_SECONDS = 2e-3
_PACKET_OF_BURST = 0.9
_MOST_PACKET_BYTES = 2**16
_FRAME_BYTES = 1514  # Ethernet's header and 1500 bytes
_LEAST_BURST_BYTES = 2 * _FRAME_BYTES
_QUEUE_SECONDS = 0.05  # a switch's buffer
_LEAST_QUEUE_BYTES = 2**18
_MOST_QUEUE_BYTES = 2**30  # more than a machine fills in 50 ms, and less than tc's 32 bits
_QUEUED_PACKETS = 100_000

_TRIES = 3
_DISTURBED_SECONDS = 10.0  # for more tries at a run's links, all together, until what disturbs them may have passed
_DOUBTFUL, _HOPELESS = 5e9, 0.5  # bits a second that not every machine carries, and the share that shows it does not
_SETTLE_SECONDS = 0.15  # the first burst, and TCP finding its pace
_WINDOW_SECONDS = 0.1
_WINDOWS = 5
_CHUNK_BYTES = 2**16
_ROUND_TRIPS = 50
_PATIENCE_SECONDS = 30.0
_SHORT_PATIENCE_SECONDS = 3.0  # after a run, where a link may be cut
_BUFFER_BYTES = 2**22  # so that a link has enough to carry while its sender waits for a core
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # not in Python's socket module
_RECEIVED, _RECEIVED_AT = struct.Struct("Q"), 128


def shape(host: Host, switch: Host, bits_per_second: float, latency: float | None) -> None:
    """Set the rate of a host's link, and the delay of packets that leave the host."""
    burst = max(bits_per_second / 8 * _BURST_SECONDS, _LEAST_BURST_BYTES)
    queue = min(max(bits_per_second / 8 * _QUEUE_SECONDS, _LEAST_QUEUE_BYTES, 2 * burst), _MOST_QUEUE_BYTES)
    rate = f"tbf rate {bits_per_second:.0f}bit burst {burst:.0f} limit {queue:.0f}"
    # Inside the shaper packets wait for their turn on the link, and before it as long as they are to be delayed.
    waiting = f"handle 10: bfifo limit {queue:.0f}"
    if latency is not None:
        waiting = f"handle 20: netem delay {latency * 1e6:g}us limit {_QUEUED_PACKETS}"
    packet = max(min(_PACKET_OF_BURST * burst, _MOST_PACKET_BYTES), _FRAME_BYTES)
    tools.run_batch("ip", host.namespace, [f"link set dev {host.interface} gso_max_size {packet:.0f}"])
    lines = [f"root handle 1: {rate}", f"parent 1:1 {waiting}"]
    tools.run_batch("tc", host.namespace, [f"qdisc replace dev {host.interface} {line}" for line in lines])
    tools.run_batch("tc", switch.namespace, [f"qdisc replace dev {host.name} root handle 1: {rate}"])


@dataclass(frozen=True)
class Link:
    """A node's link: its rate as requested and as measured in each direction, and the latency to the next node."""

    node: int
    asked_bits_per_second: float
    sent_bits_per_second: float
    received_bits_per_second: float
    latency_seconds: float

    def sped_up(self, times: float) -> "Link":
        """The same link with everything this many times faster."""
        return Link(
            self.node,
            self.asked_bits_per_second * times,
            self.sent_bits_per_second * times,
            self.received_bits_per_second * times,
            self.latency_seconds / times,
        )


def measure(hosts: Sequence[Host], switch: Host, asked: Network) -> list[Link]:
    """Measure every node's link. Rates count TCP payload and all headers down to Ethernet's, as the shaper does."""
    patient_until = time.monotonic() + _DISTURBED_SECONDS
    return [
        Link(
            node=node,
            asked_bits_per_second=asked.bits_per_second(node),
            sent_bits_per_second=_rate_found(host, switch, asked.bits_per_second(node), patient_until),
            received_bits_per_second=_rate_found(switch, host, asked.bits_per_second(node), patient_until),
            latency_seconds=latency_seconds(host, hosts[(node + 1) % len(hosts)]),
        )
        for node, host in enumerate(hosts)
    ]


def measure_again(node: int, hosts: Sequence[Host], switch: Host, asked: float) -> Link:
    """Measure one node's link after a run; a direction in which nothing arrives carries 0."""
    host, following = hosts[node], hosts[(node + 1) % len(hosts)]

    def rate(sender: Host, receiver: Host) -> float:
        try:
            return _rate_found(sender, receiver, asked, time.monotonic(), patience=_SHORT_PATIENCE_SECONDS)
        except OSError:
            return 0.0

    sent = rate(host, switch)
    received = rate(switch, host) if sent else 0.0  # a connection needs both directions
    try:
        latency = latency_seconds(host, following, patience=_SHORT_PATIENCE_SECONDS) if received else math.nan
    except OSError:
        latency = math.nan  # the other node's link may be the broken one
    return Link(node, asked, sent, received, latency)


def _rate_found(
    sender: Host, receiver: Host, asked: float, patient_until: float, *, patience: float = _PATIENCE_SECONDS
) -> float:
    """The one of a few measurements nearest to the requested rate: losing a core for a while spoils some."""
    rates: list[float] = []
    while len(rates) < _TRIES or time.monotonic() < patient_until:
        rates.append(bits_per_second(sender, receiver, patience=patience))
        beyond = asked > _DOUBTFUL and rates[-1] < _HOPELESS * asked
        if beyond or abs(rates[-1] - asked) <= OFF_RATE * asked:
            break
    return min(rates, key=lambda rate: abs(rate - asked))


def bits_per_second(sender: Host, receiver: Host, *, patience: float = _PATIENCE_SECONDS) -> float:
    """What TCP carries from one host to another, with its headers: the median over short windows."""
    near, far = _connected(sender, receiver, patience=patience)
    with near, far:
        # payload of a full packet → its bytes on the wire
        wire = _FRAME_BYTES / near.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        enough = threading.Event()
        pump = threading.Thread(target=_pump, args=(near, enough), daemon=True)
        pump.start()
        try:
            _receive(far, _SETTLE_SECONDS)
            rates = [_receive(far, _WINDOW_SECONDS) for _ in range(_WINDOWS)]
        finally:
            enough.set()
            far.close()  # which ends a pump that waits for room
            pump.join()
    return 8 * statistics.median(rates) * wire


def _pump(near: socket.socket, enough: threading.Event) -> None:
    chunk = bytes(_CHUNK_BYTES)
    try:
        while not enough.is_set():
            near.sendall(chunk)
    except OSError:
        return  # the other end is closed: it has seen enough


def _receive(far: socket.socket, seconds: float) -> float:
    """Receive for this long; bytes per second by arrival, not by when they were read: a busy core reads late."""
    room = bytearray(_CHUNK_BYTES)
    before, begun = _arrived(far), time.perf_counter()
    while time.perf_counter() - begun < seconds:
        far.recv_into(room)
    return (_arrived(far) - before) / (time.perf_counter() - begun)


def _arrived(far: socket.socket) -> int:
    """Bytes that the kernel has received on a connection: `tcpi_bytes_received` of Linux's `struct tcp_info`."""
    information = far.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_AT + _RECEIVED.size)
    return int(_RECEIVED.unpack_from(information, _RECEIVED_AT)[0])


def latency_seconds(one: Host, other: Host, *, patience: float = _PATIENCE_SECONDS) -> float:
    """One-way latency between two hosts: half the median round trip of a byte."""
    near, far = _connected(one, other, patience=patience)
    with near, far:
        echo = threading.Thread(target=_echo, args=(far,), daemon=True)
        echo.start()
        trips = []
        for _ in range(_ROUND_TRIPS):
            begun = time.perf_counter()
            near.sendall(b".")
            near.recv(1)
            trips.append(time.perf_counter() - begun)
        near.shutdown(socket.SHUT_WR)
        echo.join()
    return statistics.median(trips) / 2


def _echo(far: socket.socket) -> None:
    try:
        while heard := far.recv(1):
            far.sendall(heard)
    except OSError:
        return  # the link is gone, which the other end notices, too


def _connected(one: Host, other: Host, *, patience: float = _PATIENCE_SECONDS) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection between two hosts; each stays in its namespace."""
    with netns.inside(other.namespace, lambda: socket.create_server((other.address, 0))) as listener:
        address = listener.getsockname()
        near = netns.inside(one.namespace, lambda: socket.create_connection(address, timeout=patience))
        far, _ = listener.accept()
    for end in (near, far):
        end.settimeout(patience)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
        end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    return near, far

"""A step with parameter servers: gradients to their servers, an update there, parameters back."""

from dataclasses import dataclass

from paceline.project.simulation.network import MESSAGE_PASSES, HostCost, Layout, SimulatedNetwork
from paceline.traffic.resolved import ResolvedStrategy


@dataclass(frozen=True)
class Serving:
    """The servers, the workers they serve, and the network between them."""

    strategy: ResolvedStrategy
    layout: Layout
    network: SimulatedNetwork
    host: HostCost
    shared: bool
    """Whether servers run on the workers' devices."""

    @property
    def servers(self) -> int:
        """The number of servers; each owns an equal part of all parameters."""
        return self.strategy.servers

    @property
    def on_one_core(self) -> int:
        """The number of servers on the core that has the most."""
        return -(-self.servers // self.layout.workers) if self.shared else 1

    @property
    def latency_seconds(self) -> float:
        """The latency of one message between a worker and a server."""
        link = self.network.between if self.layout.nodes > 1 else self.network.inside
        return link.latency_seconds

    def wire_seconds(self, payload_bytes: float, workers: int) -> float:
        """The time of one payload per worker on the busiest link.

        A node's workers share its link, and a server's link carries its part from all of them. Traffic within a node
        does not use the link. Each server with a device of its own has a node and a link of its own.
        """
        part, nodes = payload_bytes / self.servers, self.layout.nodes
        if nodes == 1:
            return workers * part / self.network.inside.bytes_per_second
        here = min(workers, self.layout.fullest)
        if not self.shared:
            return max(here * payload_bytes, workers * part) / self.network.between.bytes_per_second
        fewest, most = self.servers // nodes, -(-self.servers // nodes)
        leaving, arriving = here * (payload_bytes - fewest * part), most * part * (workers - here)
        return max(leaving, arriving) / self.network.between.bytes_per_second

    def round_seconds(self, there: float, back: float) -> float:
        """The time of the busiest link while every worker sends and receives once; directions do not share it."""
        layout, bandwidth = self.layout, self.network.between.bytes_per_second
        if layout.nodes == 1 or not self.shared:
            return max(self.wire_seconds(payload, layout.workers) for payload in (there, back))
        here, elsewhere = layout.fullest, layout.workers - layout.fullest
        served = [
            servers / self.servers for servers in (self.servers // layout.nodes, -(-self.servers // layout.nodes))
        ]
        directions = ((there, back), (back, there))
        return max(here * (1 - part) * x + elsewhere * part * y for part in served for x, y in directions) / bandwidth

    @property
    def encode_passes(self) -> float:
        """Memory passes of a worker to encode what it pushes."""
        return 0.0 if self.strategy.codec is None else self.strategy.codec.encode_passes

    @property
    def decode_passes(self) -> float:
        """Memory passes of a server to decode what one worker pushed."""
        return 0.0 if self.strategy.codec is None else self.strategy.codec.decode_passes

    def worker_seconds(self, payload_bytes: float, passes: float) -> float:
        """Work of a worker's core on its payload, which is divided among the servers."""
        return passes * payload_bytes * self.host.pass_seconds_per_byte + self.servers * self.host.message_seconds

    def server_seconds(self, payload_bytes: float, workers: int, passes: float) -> float:
        """Work of a server's core on its part of the payloads of this many workers."""
        return workers * (self.pass_seconds(payload_bytes, passes) + self.on_one_core * self.host.message_seconds)

    def pass_seconds(self, payload_bytes: float, passes: float) -> float:
        """Memory passes of a server's core over its part of one worker's payload."""
        return self.on_one_core * passes * payload_bytes / self.servers * self.host.pass_seconds_per_byte


@dataclass(frozen=True)
class ServedStep:
    """What parameter servers add to a worker's step."""

    exchange_seconds: float
    update_seconds: float
    busy_seconds: float
    """How long a server works for one worker per step, which limits the rate of updates."""

    link_seconds: float
    """How long the busiest link works for a step of all workers."""


def served_step(serving: Serving, payload: dict[str, int], update_seconds: float, *, together: bool) -> ServedStep:
    """One exchange and one update, for all workers together or for one of them.

    To the servers: encoding, sending, receiving, and after the last payload decoding and a pass to add. Then `go` and
    `apply`, and the update. Back: sending, receiving, and a pass to copy the parameters into place. A core that does
    both sides does them one after the other; otherwise core, link and server work on a payload in parallel.
    """
    workers = serving.layout.workers if together else 1
    there, back = payload["to_server"], payload["from_server"]
    update = serving.on_one_core * update_seconds / serving.servers
    coding = serving.encode_passes * back * serving.host.pass_seconds_per_byte  # as many bytes as the parameters have
    push = coding + _stage(serving, there, workers, worker_passes=MESSAGE_PASSES)
    adding = serving.server_seconds(back, workers, 1.0 + serving.decode_passes)
    pull = _stage(serving, back, workers, worker_passes=MESSAGE_PASSES + 1.0)
    busy = (
        serving.server_seconds(there, 1, MESSAGE_PASSES)
        + serving.pass_seconds(back, 1.0 + serving.decode_passes)
        + update
        + serving.server_seconds(back, 1, MESSAGE_PASSES)
    )
    link = serving.round_seconds(there, back)
    return ServedStep(push + adding + 2 * serving.latency_seconds + pull, update, busy, link)


def _stage(serving: Serving, payload_bytes: int, workers: int, *, worker_passes: float) -> float:
    """The time of the payloads of this many workers in one direction."""
    own = serving.worker_seconds(payload_bytes, worker_passes)
    served = serving.server_seconds(payload_bytes, workers, MESSAGE_PASSES)
    on_core = own + served if serving.shared else max(own, served)
    return serving.latency_seconds + max(on_core, serving.wire_seconds(payload_bytes, workers))

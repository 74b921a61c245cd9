"""One simulated step of many workers. They are identical, so one worker and the slowest one describe all."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from paceline.measure.extremes import expected_maximum
from paceline.project.simulation.grouping import TimedMessage, messages_of
from paceline.project.simulation.network import (
    HostCost,
    Layout,
    LinkModel,
    Load,
    SimulatedNetwork,
    collective_load,
)
from paceline.project.simulation.profile_step import StepProfile
from paceline.project.simulation.servers import Serving, served_step
from paceline.project.simulation.timeline import WireMessage, timeline
from paceline.traffic.resolved import ResolvedStrategy

NOTICEABLE = 0.1
"""The share of a step that freeing a resource must save before it is called the limit."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSetting:
    """The strategy of the workers, their placement, and the network and host."""

    strategy: ResolvedStrategy
    layout: Layout
    network: SimulatedNetwork = field(default_factory=SimulatedNetwork)
    host: HostCost = field(default_factory=HostCost)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Seconds of one step, mean over the workers, by phase."""

    input_seconds: float
    forward_seconds: float
    backward_seconds: float
    """Includes the exchange's work on the same core."""

    wait_seconds: float
    exchange_seconds: float
    """Exposed communication: after the last worker's last gradient."""

    update_seconds: float
    other_seconds: float
    feed_seconds: float = 0.0
    """Waiting for the next batch, where the feed is slower than the rest of the step."""

    @property
    def seconds(self) -> float:
        """The whole step."""
        return (
            self.input_seconds
            + self.forward_seconds
            + self.backward_seconds
            + self.wait_seconds
            + self.exchange_seconds
            + self.update_seconds
            + self.other_seconds
            + self.feed_seconds
        )


def simulate(profile: StepProfile, setting: SimulatedSetting) -> Step:
    """A step of this profile in this setting."""
    strategy = setting.strategy
    messages = messages_of(strategy, profile.gradients, profile.backward_seconds, setting.layout.workers)
    moved: dict[str, int] = {t.pattern: t.payload_bytes for message in messages for t in message.claim.rounds}
    step = _alone(profile)
    if "to_server" in moved:
        step = _served(profile, setting, moved)
    elif messages:
        line = timeline(profile.backward_seconds, _on_wire(messages, profile, setting), setting.network.in_flight)
        step = replace(
            step,
            backward_seconds=line.backward_seconds,
            exchange_seconds=line.exposed_seconds / strategy.every,
            wait_seconds=_wait(profile, setting),
        )
    return replace(step, feed_seconds=max(0.0, (profile.feed_seconds or 0.0) - step.seconds))


def throughput(profile: StepProfile, setting: SimulatedSetting) -> float:
    """Units per second of all workers."""
    samples = setting.layout.workers * profile.batch
    return profile.rate_per_sample * samples / simulate(profile, setting).seconds


def limit_of(profile: StepProfile, setting: SimulatedSetting) -> str:
    """The resource that shortens a step most when it is free; compute, unless another one saves a tenth."""
    seconds = simulate(profile, setting).seconds
    saved = {name: seconds - simulate(*freed).seconds for name, freed in _freed(profile, setting)}
    name = max(saved, key=lambda name: saved[name])
    return name if saved[name] >= NOTICEABLE * seconds else "compute"


def _freed(
    profile: StepProfile, setting: SimulatedSetting
) -> Iterator[tuple[str, tuple[StepProfile, SimulatedSetting]]]:
    """The same step with one resource made free, by its name."""
    network = setting.network
    between, inside = network.between, network.inside
    instant = replace(
        network, between=LinkModel(between.bytes_per_second, 0.0), inside=LinkModel(inside.bytes_per_second, 0.0)
    )
    wide = replace(network, between=LinkModel(math.inf, between.latency_seconds))
    wide_inside = replace(network, inside=LinkModel(math.inf, inside.latency_seconds))
    at_work = "servers" if setting.strategy.servers else "exchange work on the cores"
    yield "latency", (profile, replace(setting, network=instant))
    if setting.layout.nodes > 1:
        yield "bandwidth between nodes", (profile, replace(setting, network=wide))
    yield "bandwidth inside a node", (profile, replace(setting, network=wide_inside))
    yield at_work, (profile, replace(setting, host=HostCost()))
    yield "slowest worker", (replace(profile, spread_seconds=0.0), setting)
    yield "feed", (replace(profile, feed_seconds=None, input_seconds=0.0), setting)


def _alone(profile: StepProfile) -> Step:
    return Step(
        input_seconds=profile.input_seconds,
        forward_seconds=profile.forward_seconds,
        backward_seconds=profile.backward_seconds,
        wait_seconds=0.0,
        exchange_seconds=0.0,
        update_seconds=profile.update_seconds,
        other_seconds=profile.other_seconds,
    )


def _on_wire(messages: Sequence[TimedMessage], profile: StepProfile, setting: SimulatedSetting) -> list[WireMessage]:
    """Every message's first round in order, then the second ones, as workers start them; and the copies.

    Later rounds follow after backward, when a worker reaches the exchange.
    """
    wire: list[WireMessage] = []
    before: dict[int, int] = {}
    for number in range(max(len(message.claim.rounds) for message in messages)):
        for index, message in enumerate(messages):
            claim = message.claim
            if number >= len(claim.rounds):
                continue
            load = collective_load(claim.rounds[number], setting.layout, setting.network, setting.host)
            if number == 0:
                copies = claim.passes * claim.bucket.payload_bytes * setting.host.pass_seconds_per_byte
                load += Load(host_seconds=copies)
            ready = message.ready_seconds if number == 0 else profile.backward_seconds
            wire.append(WireMessage(ready, load, before.get(index)))
            before[index] = len(wire) - 1
    return wire


def _wait(profile: StepProfile, setting: SimulatedSetting) -> float:
    """The wait for the slowest of n workers, where workers wait for one another.

    Over H steps a worker's deviations add up in quadrature to √H of one, and the others wait once in H steps.
    """
    return profile.spread_seconds * expected_maximum(setting.layout.workers) / math.sqrt(setting.strategy.every)


def _served(profile: StepProfile, setting: SimulatedSetting, moved: dict[str, int]) -> Step:
    layout, strategy = setting.layout, setting.strategy
    serving = Serving(strategy, layout, setting.network, setting.host, _shares_devices(profile, layout, strategy))
    served = served_step(serving, moved, profile.update_seconds, together=strategy.synchronous)
    # Servers that divide the update could make a step shorter than one worker's alone; this is never predicted.
    least = max(0.0, profile.update_seconds - served.update_seconds)
    exchange = max(served.exchange_seconds, least)
    step = replace(_alone(profile), exchange_seconds=exchange, update_seconds=served.update_seconds)
    if strategy.synchronous:
        return replace(step, wait_seconds=_wait(profile, setting))
    # Without a barrier, a worker waits while a server or a link is busy with others. A worker whose core hosts a server
    # also does the serving for all others. The mean is over rates, because every worker has its own pace.
    others = (layout.workers - 1) * served.busy_seconds
    hosting = min(strategy.servers, layout.workers) / layout.workers if serving.shared else 0.0
    slowed = max(step.seconds + others, served.link_seconds)
    elsewhere = max(step.seconds, served.busy_seconds + others, served.link_seconds)
    mean = 1 / (hosting / slowed + (1 - hosting) / elsewhere)
    # A bound of b steps lets a worker run ahead, so it waits in one of b + 1 steps.
    held = 0.0 if strategy.bound is None else _wait(profile, setting) / (strategy.bound + 1)
    return replace(step, wait_seconds=mean - step.seconds + held)


def _shares_devices(profile: StepProfile, layout: Layout, strategy: ResolvedStrategy) -> bool:
    """As in a run: servers get devices of their own if some are free, unless the strategy says otherwise."""
    if strategy.server_place is not None:
        return strategy.server_place == "shared"
    if profile.devices_per_node is None:
        return False
    return layout.nodes * profile.devices_per_node - layout.workers < strategy.servers

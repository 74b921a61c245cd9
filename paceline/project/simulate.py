"""One simulated step of many workers: they are alike, so one of them and the slowest of them tell all."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from paceline.measure.extremes import expected_maximum
from paceline.project.grouping import Group, groups_of
from paceline.project.network import Host, Layout, Link, Load, Network, collective_load
from paceline.project.servers import Serving, served_step
from paceline.project.simulation.profile_step import StepProfile
from paceline.project.timeline import Message, timeline
from paceline.traffic.base import Payload, Traffic, by_pattern
from paceline.traffic.ps import ParameterServer

NOTICEABLE = 0.1
"""Of a step: what freeing a resource must save before it is called the limit."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How workers agree, where they are, and over what."""

    traffic: Traffic
    layout: Layout
    network: Network = field(default_factory=Network)
    host: Host = field(default_factory=Host)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Seconds of one step, mean over the workers, by phase."""

    input_seconds: float
    forward_seconds: float
    backward_seconds: float
    """The exchange's work on the same core included."""

    wait_seconds: float
    exchange_seconds: float
    """Exposed: after the last worker's last gradient."""

    update_seconds: float
    other_seconds: float
    feed_seconds: float = 0.0
    """Until the next batch, where the feed is slower than all of that."""

    @property
    def seconds(self) -> float:
        """All of it."""
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


def simulate(profile: StepProfile, setting: Setting) -> Step:
    """A step of this profile in this setting."""
    groups = groups_of(setting.traffic, profile.gradients, profile.backward_seconds)
    claimed = _claim(setting.traffic, sum(g.payload_bytes for g in groups), setting.layout.workers)
    step = _alone(profile)
    if groups and isinstance(setting.traffic, ParameterServer):
        step = _served(profile, setting, setting.traffic, claimed)
    elif claimed:
        messages = [Message(group.ready_seconds, _load(group, setting)) for group in groups]
        line = timeline(profile.backward_seconds, messages, setting.network.in_flight)
        step = replace(
            step,
            backward_seconds=line.backward_seconds,
            exchange_seconds=line.exposed_seconds,
            wait_seconds=_wait(profile, setting),
        )
    return replace(step, feed_seconds=max(0.0, (profile.feed_seconds or 0.0) - step.seconds))


def throughput(profile: StepProfile, setting: Setting) -> float:
    """Units per second of all workers."""
    samples = setting.layout.workers * profile.batch
    return profile.rate_per_sample * samples / simulate(profile, setting).seconds


def limit_of(profile: StepProfile, setting: Setting) -> str:
    """The resource without which a step would be shortest; computing, unless another one saves a tenth of it."""
    seconds = simulate(profile, setting).seconds
    saved = {name: seconds - simulate(*freed).seconds for name, freed in _freed(profile, setting)}
    name = max(saved, key=lambda name: saved[name])
    return name if saved[name] >= NOTICEABLE * seconds else "compute"


def _freed(profile: StepProfile, setting: Setting) -> Iterator[tuple[str, tuple[StepProfile, Setting]]]:
    """The same step with one resource made free, by its name."""
    network = setting.network
    between, inside = network.between, network.inside
    instant = replace(network, between=Link(between.bytes_per_second, 0.0), inside=Link(inside.bytes_per_second, 0.0))
    wide = replace(network, between=Link(math.inf, between.latency_seconds))
    wide_inside = replace(network, inside=Link(math.inf, inside.latency_seconds))
    at_work = "servers" if setting.traffic.servers else "exchange work on the cores"
    yield "latency", (profile, replace(setting, network=instant))
    yield "bandwidth between nodes", (profile, replace(setting, network=wide))
    yield "bandwidth inside a node", (profile, replace(setting, network=wide_inside))
    yield at_work, (profile, replace(setting, host=Host()))
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


def _claim(traffic: Traffic, payload_bytes: int, workers: int) -> dict[str, int]:
    """What a step moves, by pattern, as the strategy claims."""
    if not payload_bytes:
        return {}
    return by_pattern(traffic.transfers(Payload((payload_bytes,), 0), workers), "step")


def _load(group: Group, setting: Setting) -> Load:
    """What one message asks for: the transfers the strategy claims for it, and its copies."""
    claimed = setting.traffic.transfers(Payload((group.payload_bytes,), 0), setting.layout.workers)
    load = Load()
    for transfer in claimed:
        if transfer.per == "step":
            load += collective_load(transfer, setting.layout, setting.network, setting.host)
    copies = group.copied_passes * group.payload_bytes * setting.host.pass_seconds_per_byte
    return load + Load(host_seconds=copies)


def _wait(profile: StepProfile, setting: Setting) -> float:
    """For the slowest of n, where workers wait for one another."""
    return profile.spread_seconds * expected_maximum(setting.layout.workers)


def _served(profile: StepProfile, setting: Setting, options: ParameterServer, payload: dict[str, int]) -> Step:
    layout = setting.layout
    serving = Serving(options, layout, setting.network, setting.host, _shares_devices(profile, layout, options))
    served = served_step(serving, payload, profile.update_seconds, together=options.synchronous)
    # Servers that divide the update would make a step shorter than one worker's alone; that is never claimed.
    least = max(0.0, profile.update_seconds - served.update_seconds)
    exchange = max(served.exchange_seconds, least)
    step = replace(_alone(profile), exchange_seconds=exchange, update_seconds=served.update_seconds)
    if options.synchronous:
        return replace(step, wait_seconds=_wait(profile, setting))
    # Without a barrier a worker waits for a server, or for a link, that is busy with others. One whose core serves does
    # all the others' work of a step, too; the mean is over rates, as every worker goes at its own.
    others = (layout.workers - 1) * served.busy_seconds
    hosting = min(options.servers, layout.workers) / layout.workers if serving.shared else 0.0
    slowed = max(step.seconds + others, served.link_seconds)
    elsewhere = max(step.seconds, served.busy_seconds + others, served.link_seconds)
    mean = 1 / (hosting / slowed + (1 - hosting) / elsewhere)
    # A bound of b steps lets a worker be ahead: of the wait of every step, one in b + 1 is left.
    held = 0.0 if options.bound is None else _wait(profile, setting) / (options.bound + 1)
    return replace(step, wait_seconds=mean - step.seconds + held)


def _shares_devices(profile: StepProfile, layout: Layout, options: ParameterServer) -> bool:
    """As a run decides: servers have devices of their own where they are free, unless told otherwise."""
    if options.place is not None:
        return options.place == "shared"
    if profile.devices_per_node is None:
        return False
    return layout.nodes * profile.devices_per_node - layout.workers < options.servers

"""What if: more workers, another strategy, batch, network, device or feed, answered by simulating a step."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from paceline.errors import SpecError
from paceline.grammar import require
from paceline.measure.profile import Profile
from paceline.project.calibrate import fit_host, fit_network
from paceline.project.curve import Curve, Point, Projected
from paceline.project.network import Host, Layout, Link, Network
from paceline.project.profile_step import StepProfile, anchor_of, profile_from, profile_of
from paceline.project.simulate import Setting, limit_of, simulate
from paceline.record import Record
from paceline.traffic import catalogue
from paceline.traffic.ps import ParameterServer

EXCHANGE_ERROR = 0.25
"""Relative standard error of what an exchange adds to a step: the model's own, whatever was measured."""

DISTANCE_ERROR = 0.03
"""Of a step, for every doubling beyond the workers that were measured."""

_Z80, _Z95 = 1.2816, 1.9600
_SLOWEST_BYTES, _FASTEST_BYTES = 1e3, 1e13
"""Between these bandwidths, in bytes per second, a break-even is looked for."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What differs from the runs that were measured; None and 1 leave things as they were."""

    strategy: str | None = None
    network: Network | None = None
    workers_per_node: int | None = None
    device_factor: float = 1.0
    """How many times as fast devices compute."""

    feed_factor: float = 1.0
    """How many times as fast batches come."""

    def __post_init__(self) -> None:
        for name in ("device_factor", "feed_factor"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"{name}={value} is not valid: it must be above 0 and finite.")
        many = self.workers_per_node is None or self.workers_per_node >= 1
        require(many, f"--workers-per-node {self.workers_per_node} is not valid: it must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured, ready to be asked."""

    profile: StepProfile
    strategy: str
    host: Host
    network: Network | None
    """Fitted from an exchange that no host's cores explain."""

    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> "Measured":
        """From the runs of one workload; the one of the most workers says what an exchange costs."""
        profile, host = profile_of(records), fit_host(records)
        network = None if host is not None else fit_network(records)
        return cls(
            profile=profile,
            strategy=anchor_of(records).spec["strategy"],
            host=host or Host(),
            network=network,
            warnings=profile.warnings if host or network else (*profile.warnings, _NO_EXCHANGE),
        )

    @classmethod
    def of_profile(cls, profile: Profile) -> "Measured":
        """From a device's profile: one worker alone."""
        return cls(
            profile=profile_from(profile),
            strategy="independent",
            host=Host(),
            network=None,
            warnings=(_NO_EXCHANGE,),
        )


_NO_EXCHANGE = (
    "No exchange was measured: its work on the cores is left out, and only the network given counts. Give a record of "
    "two workers beside it."
)


def curve(measured: Measured, points: Sequence[Point], question: Question) -> Curve:
    """The answer at each point, in the order asked, with what to know about it."""
    asked = [_Asked.of(measured, point, question) for point in points]
    warnings = [*measured.warnings]
    for each in asked:
        warnings += [w for w in (*each.profile.warnings, *each.warnings()) if w not in warnings]
    return Curve(
        law="simulation",
        points=tuple(each.projected() for each in asked),
        knee_workers=_knee(measured, points, question),
        validated_on=VALIDATED_ON,
        warnings=tuple(warnings),
    )


VALIDATED_ON = "the processor time of real runs of two workers on one node, no others yet: docs/simulation.md"


@dataclass(frozen=True)
class _Asked:
    """One point of a question, ready to be simulated."""

    point: Point
    profile: StepProfile
    setting: Setting
    measured: Measured

    @classmethod
    def of(cls, measured: Measured, point: Point, question: Question) -> "_Asked":
        profile = measured.profile.at_batch(point.batch or measured.profile.batch)
        host = measured.host
        if question.device_factor != 1:
            profile = profile.on_faster_device(question.device_factor)
            # The same cores do both.
            host = Host(
                host.pass_seconds_per_byte / question.device_factor, host.message_seconds / question.device_factor
            )
        if question.feed_factor != 1:
            profile = profile.with_feed(question.feed_factor)
        layout = _layout(measured, point, question)
        network = question.network or measured.network
        if layout.nodes > 1 and (network is None or network.between == Link()):
            raise SpecError(
                f"{point.workers} workers on {layout.nodes} nodes exchange over a network that is not known: give it, "
                "as in --network 1Gbps,latency=50us."
            )
        traffic = catalogue.resolve(question.strategy or measured.strategy)
        return cls(
            point, profile, Setting(traffic=traffic, layout=layout, network=network or Network(), host=host), measured
        )

    def seconds(self) -> float:
        """Of a step."""
        return simulate(self.profile, self.setting).seconds

    def throughput(self) -> float:
        """Units per second of all workers."""
        return self.profile.rate_per_sample * self.point.workers * self.profile.batch / self.seconds()

    def projected(self) -> Projected:
        """With its band and its limit."""
        rate, error = self.throughput(), self._error()
        return Projected(
            point=replace(self.point, nodes=self.setting.layout.nodes, batch=self.profile.batch),
            throughput=rate,
            step_seconds=self.seconds(),
            low80=rate * math.exp(-_Z80 * error),
            high80=rate * math.exp(_Z80 * error),
            low95=rate * math.exp(-_Z95 * error),
            high95=rate * math.exp(_Z95 * error),
            limit=limit_of(self.profile, self.setting),
        )

    def _error(self) -> float:
        """Relative standard error: of what was measured, of the model's exchange, and of the distance to both."""
        seconds = self.seconds()
        added = max(0.0, seconds - self.profile.own_seconds) / seconds
        doublings = max(0.0, math.log2(self.point.workers / self.profile.measured_workers))
        return math.sqrt(self.profile.error**2 + (EXCHANGE_ERROR * added) ** 2 + (DISTANCE_ERROR * doublings) ** 2)

    def warnings(self) -> list[str]:
        """What this point asks for that no run of today can do."""
        found = []
        devices, layout = self.profile.devices_per_node, self.setting.layout
        if devices is not None and layout.fullest > devices:
            found.append(
                f"{layout.fullest} workers on one node were asked for, and the machine that was measured has "
                f"{devices} devices: a node with as many equal ones is assumed."
            )
        if isinstance(self.setting.traffic, ParameterServer) and layout.nodes > 1:
            found.append("ps runs on one node only for now: its servers on several nodes are a projection alone.")
        return found


def _layout(measured: Measured, point: Point, question: Question) -> Layout:
    """From the point's nodes, or the workers per node that were asked for; otherwise as full as those measured on."""
    if point.nodes is not None:
        return Layout.even(point.workers, point.nodes)
    if question.workers_per_node is not None:
        return Layout(point.workers, question.workers_per_node)
    if question.network is None:
        return Layout(point.workers, point.workers)
    return Layout(point.workers, measured.profile.devices_per_node or 1)


def _knee(measured: Measured, points: Sequence[Point], question: Question) -> int | None:
    """The fewest workers whose doubling brings less than half of a doubling, up to the most asked for."""
    most = max(point.workers for point in points)

    def pays(workers: int) -> bool:
        at = [Point(workers=n, nodes=None, batch=points[0].batch) for n in (workers, 2 * workers)]
        one, two = (_Asked.of(measured, point, question).throughput() for point in at)
        return two >= 1.5 * one

    workers = 1
    while workers <= most and pays(workers):
        workers *= 2
    if workers > most:
        return None
    return _fewest(lambda n: not pays(n), workers // 2, workers)


def _fewest(true_from: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number for which it is true, where it is at `high` and is not at `low`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true_from(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class BreakEven:
    """Where one strategy stops being faster than another."""

    bytes_per_second: float | None
    """Usable bandwidth between nodes at which both are equally fast; None: one of them is faster at any."""

    faster_below: str
    faster_above: str


def break_even(measured: Measured, point: Point, question: Question, strategies: tuple[str, str]) -> BreakEven:
    """The bandwidth between nodes at which two strategies take equally long, latency as in the question's network."""
    network = question.network
    if network is None or _layout(measured, point, question).nodes == 1:
        raise SpecError("A break-even bandwidth is of a network between nodes: give one, and at least two nodes.")

    def ahead(bandwidth: float) -> float:
        """Seconds by which the first is faster."""
        link = Link(bandwidth, network.between.latency_seconds)
        there = replace(question, network=replace(network, between=link))
        first, second = (_Asked.of(measured, point, replace(there, strategy=s)).seconds() for s in strategies)
        return second - first

    slow, fast = (strategies[0] if ahead(b) >= 0 else strategies[1] for b in (_SLOWEST_BYTES, _FASTEST_BYTES))
    if slow == fast:
        return BreakEven(None, slow, fast)
    low, high = math.log(_SLOWEST_BYTES), math.log(_FASTEST_BYTES)
    for _ in range(60):
        middle = (low + high) / 2
        below = (ahead(math.exp(middle)) >= 0) == (slow == strategies[0])
        low, high = (middle, high) if below else (low, middle)
    return BreakEven(math.exp((low + high) / 2), slow, fast)

"""What if: more workers, another strategy, batch, network, device or feed, answered by simulating a step."""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from paceline.errors import DataError, SpecError
from paceline.grammar import require
from paceline.measure.extremes import Z80, Z95
from paceline.measure.ratios import rate_of, rate_over, why_not_known
from paceline.measure.scaling import scaling_rows
from paceline.numbers import count
from paceline.project.curve import (
    Knee,
    Point,
    Projected,
    ProjectedCurve,
    batch_at,
    far_beyond,
    knee,
    require_near_batches,
    require_within_reach,
)
from paceline.project.simulation.calibrate import fit_host, fit_network
from paceline.project.simulation.network import HostCost, Layout, LinkModel, SimulatedNetwork
from paceline.project.simulation.profile_step import StepProfile, anchor_of, interval_error, profile_of
from paceline.project.simulation.simulate import SimulatedSetting, limit_of, simulate
from paceline.record import Record
from paceline.traffic import catalogue

EXCHANGE_ERROR = 0.25
"""Relative standard error of the simulated exchange time, regardless of what was measured."""

DISTANCE_ERROR = 0.03
"""Relative error of a step that each doubling beyond the measured workers adds."""

_FAR = 64
"""More than this multiple of the measured workers gives a warning."""

_SPEED_REACH = 100


@dataclass(frozen=True, kw_only=True)
class Question:
    """What differs from the measured runs; None and 1 mean no change."""

    strategy: str | None = None
    network: SimulatedNetwork | None = None
    workers_per_node: int | None = None
    device_speed: float = 1.0
    """Compute speed relative to the measured devices."""

    feed_speed: float = 1.0
    """Feed speed relative to the measured feed."""

    def __post_init__(self) -> None:
        for flag, value in (("--device-speed", self.device_speed), ("--feed-speed", self.feed_speed)):
            within = 1 / _SPEED_REACH <= value <= _SPEED_REACH
            rule = f"times as fast as measured, from {1 / _SPEED_REACH:g} to {_SPEED_REACH}"
            require(within, f"{flag} {value:g} is not valid: give how many {rule}.")
        many = self.workers_per_node is None or self.workers_per_node >= 1
        require(many, f"--workers-per-node {self.workers_per_node} is not valid: it must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measured step of a run, ready for simulation in other settings."""

    profile: StepProfile
    strategy: str
    host: HostCost
    network: SimulatedNetwork | None
    """Fitted to the exchange where the exchange's work on the cores does not explain it."""

    warnings: tuple[str, ...] = field(default=())

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> "Measured":
        """From the runs of one workload; the run with the most workers determines the cost of an exchange.

        Among repeats, the one closest to their mean is used, and their spread sets the band.
        """
        settings = [row.records for row in scaling_rows(records)]
        typical = [_typical(repeats) for repeats in settings]
        anchor = anchor_of(typical)
        repeats = next(setting for setting in settings if anchor in setting)
        over, unknown = rate_over(repeats), why_not_known(repeats)
        if unknown is not None:
            who = f"{anchor.spec.strategy} with {count(anchor.spec.workers, 'worker')}"
            raise DataError(f"Nothing can be projected: the rate of {who} is not known: {unknown}")
        profile, host = profile_of(typical), fit_host(typical)
        profile = replace(profile, error=max(profile.error, interval_error(over)))
        network = None if host is not None else fit_network(typical)
        return cls(
            profile=profile,
            strategy=anchor.spec.strategy,
            host=host or HostCost(),
            network=network,
            warnings=profile.warnings if host or network else (*profile.warnings, _NO_EXCHANGE),
        )


def _typical(repeats: Sequence[Record]) -> Record:
    """The repeat whose rate is closest to the overall rate, preferably one with gradient times."""
    sampled = [record for record in repeats if record.gradients] or repeats
    over = rate_over(repeats).value
    return min(sampled, key=lambda record: abs(math.log(rate_of(record).value / over)))


_NO_EXCHANGE = (
    "No exchange was measured: the projection omits its work on the cores and counts only the network. Add a record of "
    "two workers."
)


Progress = Callable[[Sequence[Point]], Iterable[Point]]
"""Wraps the iteration over points, for example to show progress."""


def curve(measured: Measured, points: Sequence[Point], question: Question, progress: Progress = iter) -> ProjectedCurve:
    """The answer at each point, in the requested order, with warnings; refuses points far beyond the measurements."""
    _require_within_reach(measured.profile, points)
    asked, projected = [], []
    for point in progress(points):
        asked.append(SimulatedPoint.of(measured, point, question))
        projected.append(asked[-1].projected())
    found = _knee(measured, points, question)
    notes = dict.fromkeys((*measured.warnings, *(w for each in asked for w in each.profile.warnings)))
    return ProjectedCurve(
        law="simulation",
        points=tuple(projected),
        knee_workers=found.workers,
        validated_on=VALIDATED_ON,
        warnings=(*notes, *_warnings(measured.profile, asked)),
        weak_doublings=found.weak,
    )


def _require_within_reach(profile: StepProfile, points: Sequence[Point]) -> None:
    require_within_reach(points, profile.measured_workers, "one profile of a step")
    require_near_batches(points, profile.batch, profile.batch)


VALIDATED_ON = (
    "real runs of two workers on one node, and of 4, 8 and 12 on three nodes of a testbed: docs/simulation.md"
)


@dataclass(frozen=True)
class SimulatedPoint:
    """One point of a question, ready to be simulated."""

    point: Point
    profile: StepProfile
    setting: SimulatedSetting
    measured: Measured

    @classmethod
    def of(cls, measured: Measured, point: Point, question: Question) -> "SimulatedPoint":
        profile = measured.profile.at_batch(point.batch or measured.profile.batch)
        host = measured.host
        if question.device_speed != 1:
            profile = profile.on_faster_device(question.device_speed)
            # The same cores compute and exchange.
            host = HostCost(
                host.pass_seconds_per_byte / question.device_speed, host.message_seconds / question.device_speed
            )
        if question.feed_speed != 1:
            profile = profile.with_feed(question.feed_speed)
        layout = layout_of(measured, point, question)
        network = question.network or measured.network
        if layout.nodes > 1 and (network is None or network.between == LinkModel()):
            raise SpecError(
                f"{point.workers} workers on {layout.nodes} nodes need a network, which is not known: give it, "
                "as in --network 1Gbps,latency=50us."
            )
        strategy = catalogue.resolve(question.strategy or measured.strategy)
        return cls(
            point,
            profile,
            SimulatedSetting(strategy=strategy, layout=layout, network=network or SimulatedNetwork(), host=host),
            measured,
        )

    @cached_property
    def seconds(self) -> float:
        """The simulated step time in seconds."""
        return simulate(self.profile, self.setting).seconds

    def throughput(self) -> float:
        """Units per second of all workers."""
        return self.profile.rate_per_sample * self.point.workers * self.profile.batch / self.seconds

    def projected(self) -> Projected:
        """The answer at this point, with its bands and its limit."""
        rate, error = self.throughput(), self._error()
        return Projected(
            point=replace(self.point, nodes=self.setting.layout.nodes, batch=self.profile.batch),
            throughput=rate,
            step_seconds=self.seconds,
            low80=rate * math.exp(-Z80 * error),
            high80=rate * math.exp(Z80 * error),
            low95=rate * math.exp(-Z95 * error),
            high95=rate * math.exp(Z95 * error),
            limit=limit_of(self.profile, self.setting),
        )

    @property
    def exchange_error(self) -> float:
        """Relative standard error that comes from the simulated exchange."""
        return EXCHANGE_ERROR * max(0.0, self.seconds - self.profile.own_seconds) / self.seconds

    def _error(self) -> float:
        """Relative standard error: from the measurement, the simulated exchange, and the extrapolation."""
        doublings = max(0.0, math.log2(self.point.workers / self.profile.measured_workers))
        return math.sqrt(self.profile.error**2 + self.exchange_error**2 + (DISTANCE_ERROR * doublings) ** 2)


def _warnings(profile: StepProfile, asked: Sequence[SimulatedPoint]) -> list[str]:
    """Warnings about nodes larger than the measured machine, and points far beyond the measured workers."""
    warnings = []
    fullest, devices = max(each.setting.layout.fullest for each in asked), profile.devices_per_node
    if devices is not None and fullest > devices:
        warnings.append(
            f"Up to {fullest} workers on one node were requested, but the measured machine has {devices} devices: a "
            f"node with {fullest} equal devices is assumed."
        )
    return warnings + far_beyond([each.point for each in asked], profile.measured_workers, _FAR)


def layout_of(measured: Measured, point: Point, question: Question) -> Layout:
    """From the point's nodes, or the requested workers per node; otherwise nodes as full as the measured ones."""
    if point.nodes is not None:
        return Layout.even(point.workers, point.nodes)
    if question.workers_per_node is not None:
        return Layout(point.workers, question.workers_per_node)
    if question.network is None and (measured.network is None or measured.network.between == LinkModel()):
        return Layout(point.workers, point.workers)
    return Layout(point.workers, measured.profile.devices_per_node or 1)


def _knee(measured: Measured, points: Sequence[Point], question: Question) -> Knee:
    """The knee up to the largest requested count."""
    batch = batch_at(points)

    @functools.cache
    def rate(count: int) -> float:
        return SimulatedPoint.of(measured, Point(count, None, batch(count)), question).throughput()

    return knee(lambda counts: [rate(count) for count in counts], max(point.workers for point in points))

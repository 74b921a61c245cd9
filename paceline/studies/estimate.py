"""How long runs will take, as ranges: from finished runs, from probes, or from the requested seconds alone."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from paceline.engines.base import Engine
from paceline.engines.inspection import DataFacts, order_of
from paceline.feeds.catalogue import DatasetOptions, resolve
from paceline.network import parse_network
from paceline.record import Record
from paceline.spec import RunSpec
from paceline.studies.definition import Study
from paceline.studies.grid import Run
from paceline.studies.probe import Kind, Probe, kind_of, probe
from paceline.traffic import catalogue as strategies
from paceline.units import human_seconds

_NARROW = 1.15
"""A range whose ends differ by less than this factor is written as one number."""


@dataclass(frozen=True)
class Span:
    """Seconds from `low` to `high`."""

    low: float
    high: float

    def __add__(self, other: "Span") -> "Span":
        return Span(self.low + other.low, self.high + other.high)

    def times(self, low: float, high: float) -> "Span":
        """The range with each end multiplied."""
        return Span(self.low * low, self.high * high)

    def __str__(self) -> str:
        if self.high <= _NARROW * self.low:
            return f"about {human_seconds((self.low + self.high) / 2)}"
        return f"{human_seconds(self.low)} to {human_seconds(self.high)}"


_NOTHING = Span(0.0, 0.0)
_START_UP = Span(1.5, 15.0)
"""Start-up of a run of which nothing is known."""

_SAME_AGAIN = (0.8, 1.25)
"""How far another run of the same settings may be from the finished ones."""

_AS_PROBED = (0.7, 1.5)
"""How far training may be from what one worker shows in a second."""

_STARTING = (0.7, 2.0)
"""The same of start-up: workers on one device take turns, and wait for one another."""

_LOCAL_EXCHANGE = 2.0
"""What communication between processes of one machine may multiply a step by."""

_FIRST_WINDOWS_SECONDS = 2.0
"""A run with `until_percent` trains at least so long."""

_LINK_SECONDS, _DISTURBED_LINKS_SECONDS = 1.4, 10.0
"""A measurement of one node's link, and what disturbed links may take in addition; before and after every run."""


class Pace:
    """Estimated durations: of the same cell, from a finished run or a probe of the same kind, or from `seconds`."""

    def __init__(self, facts: Mapping[str, DataFacts] | None = None) -> None:
        self._facts = facts or {}
        self._cells: dict[str, Span] = {}
        self._probes: dict[Kind, Probe] = {}
        self._estimates: dict[str, tuple[Probe, Span | None]] = {}

    def learn(self, run: Run, record: Record) -> None:
        """Add a finished run."""
        seconds = record.wall_seconds.total
        known = self._cells.get(run.cell.key, Span(seconds, seconds))
        self._cells[run.cell.key] = Span(min(known.low, seconds), max(known.high, seconds))
        kind = kind_of(run.spec)
        if kind not in self._probes or record.spec.workers < self._probes[kind].workers:
            self._probes[kind] = Probe.of(record)

    def probe(self, runs: Iterable[Run], engine: Engine, say: Callable[[str], None]) -> None:
        """Time a second of every kind of run that nothing is known of."""
        unknown = (run.spec for run in runs if run.cell.key not in self._cells)
        measured = probe((spec for spec in unknown if kind_of(spec) not in self._probes), engine, say)
        self._probes = {**measured, **self._probes}

    def seconds(self, runs: Iterable[Run]) -> Span | None:
        """The estimated duration of these runs; None if it is unknown."""
        total = _NOTHING
        for run in runs:
            known = self._one(run)
            if known is None:
                return None
            total += known
        return total

    def _one(self, run: Run) -> Span | None:
        same = self._cells.get(run.cell.key)
        if same is not None:
            return same.times(*_SAME_AGAIN) + _links(run.spec)  # which are not part of the run's own time
        known = self._probes.get(kind_of(run.spec))
        if known is None:
            return _by_request(run.spec)
        made = self._estimates.get(run.cell.key)
        if made is None or made[0] is not known:  # a large study asks for every run again and again
            made = known, estimate(run.spec, known, self._facts.get(run.spec.workload))
            self._estimates[run.cell.key] = made
        return made[1]


def _by_request(spec: RunSpec) -> Span | None:
    """The duration of a run of which only the requested seconds are known."""
    if spec.seconds is None or spec.validate not in (None, "off"):
        return None
    return _limited(spec.seconds, spec) + _START_UP.times(1, spec.workers_per_device) + _links(spec)


def estimate(spec: RunSpec, known: Probe, facts: DataFacts | None) -> Span | None:
    """The duration of a run by the pace of one worker: start-up, training, validation, and measuring links."""
    per_epoch = _steps_per_epoch(spec, facts)
    training = _training(spec, known, per_epoch)
    if training is None:
        return None
    validation = _validation(spec, known, facts, per_epoch, training)
    if validation is None:
        return None
    start_up = Span(known.start_up_seconds, known.start_up_seconds * spec.workers_per_device).times(*_STARTING)
    return start_up + training + validation + _links(spec)


def _steps_per_epoch(spec: RunSpec, facts: DataFacts | None) -> int | None:
    """None where the feed has no epochs, or where the size of the data is unknown."""
    _, feed = resolve(spec.feed)
    return order_of(spec, facts).steps_per_epoch if facts is not None and isinstance(feed, DatasetOptions) else None


def _training(spec: RunSpec, known: Probe, per_epoch: int | None) -> Span | None:
    steps = spec.steps
    if spec.epochs is not None:
        if per_epoch is None:
            return None
        steps = spec.epochs * per_epoch
    if steps is None:
        return _limited(spec.seconds or math.inf, spec)
    whole = steps * _step_seconds(spec, known)
    exchange = _LOCAL_EXCHANGE if spec.workers > known.workers else 1.0
    trained = Span(whole, whole * exchange + steps * _link_seconds(spec, known)).times(*_AS_PROBED)
    if spec.until_percent is not None:
        trained = Span(min(_FIRST_WINDOWS_SECONDS, trained.low), trained.high)
    return trained if spec.seconds is None else Span(min(trained.low, spec.seconds), min(trained.high, spec.seconds))


def _limited(seconds: float, spec: RunSpec) -> Span:
    """Training for at most this long."""
    return Span(min(_FIRST_WINDOWS_SECONDS, seconds) if spec.until_percent is not None else seconds, seconds)


def _step_seconds(spec: RunSpec, known: Probe) -> float:
    """Workers on one device take turns."""
    return (spec.batch or 0) * known.sample_seconds * spec.workers_per_device


def _link_seconds(spec: RunSpec, known: Probe) -> float:
    """Seconds that a step's gradients need on the slowest link of a testbed, without overlap and compression."""
    if spec.network is None:
        return 0.0
    network = parse_network(spec.network).slowed(spec.slow_motion)
    slowest = min(network.bits_per_second(node) for node in range(spec.nodes))
    flows = spec.workers / spec.nodes if strategies.resolve(spec.strategy).servers else 1.0
    return 8 * 2 * known.gradient_bytes * flows / slowest


def _validation(
    spec: RunSpec, known: Probe, facts: DataFacts | None, per_epoch: int | None, training: Span
) -> Span | None:
    """All validations of a run: its workers divide the set."""
    if spec.validate in (None, "off"):
        return _NOTHING
    if facts is None:
        return None
    once = facts.validation / spec.workers * spec.workers_per_device * known.forward_seconds
    if spec.validate == "end" or per_epoch is None:
        return Span(once, once).times(*_AS_PROBED)
    epoch_seconds = per_epoch * _step_seconds(spec, known)
    passes = training.times(1 / epoch_seconds, 1 / epoch_seconds)
    if spec.epochs is not None:
        passes = Span(spec.epochs, spec.epochs)
    elif spec.steps is not None:
        passes = Span(math.ceil(spec.steps / per_epoch), math.ceil(spec.steps / per_epoch))
    return Span(once * max(1.0, passes.low), once * max(1.0, passes.high + 1)).times(*_AS_PROBED)


def _links(spec: RunSpec) -> Span:
    """The links of a testbed are measured before and after every run."""
    if spec.nodes == 1:
        return _NOTHING
    once = spec.nodes * _LINK_SECONDS
    return Span(2 * once, 2 * (once + _DISTURBED_LINKS_SECONDS))


def requested(study: Study) -> Span | None:
    """The estimated duration of a study from its requested seconds alone; None if more has to be known."""
    total = _NOTHING
    for _, axes in study.blocks:
        seconds = axes.get("seconds")
        if seconds is None or not all(isinstance(s, int | float) and math.isfinite(s) for s in seconds):
            return None
        if set(axes.get("validate", ("off",))) != {"off"}:
            return None
        runs = study.repeats * math.prod(map(len, axes.values()))
        each = statistics.fmean(seconds)
        total += (Span(each, each) + _START_UP).times(runs, runs)
    return total

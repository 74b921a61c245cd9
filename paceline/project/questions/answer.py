"""From a table or records to an answer: select the rows or runs, then fit laws or simulate a step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from paceline.errors import DataError, SpecError
from paceline.measure.ratios import rate_over
from paceline.measure.scaling import scaling_rows
from paceline.numbers import significant
from paceline.project.curve import Point, Projected, ProjectedCurve
from paceline.project.laws.forecast import forecast
from paceline.project.laws.table import from_series, one_series
from paceline.project.questions.break_even import BreakEven, break_even
from paceline.project.questions.pseudo import with_row
from paceline.project.questions.whatif import Measured, Progress, Question, curve
from paceline.record import Record
from paceline.references import records as ours
from paceline.references.base import Reference, Row, Series
from paceline.references.headings import LABELS
from paceline.settings import Baseline, Role
from paceline.spec import SETTINGS, with_role
from paceline.traffic import catalogue

_ENOUGH_COUNTS = 3
"""With at least this many measured worker counts, laws answer, unless the question needs the simulation."""

_OF_LAWS = (
    *LABELS,
    "workers",
    "devices",
    "nodes",
    "batch",
    "global_batch",
    "throughput",
    "step_seconds",
    "sync_seconds",
)
"""What laws are fitted to; other columns of a table make no difference."""

_SAME_WORK = 1.5
"""How far the work of a step may differ between rows before speed and step time contradict each other."""


@dataclass(frozen=True)
class Answer:
    """A curve, its subject, and the measurements behind it."""

    curve: ProjectedCurve
    subject: str
    """The strategy, or the series of a table."""

    unit: str
    measured: tuple[tuple[int, float], ...]
    """Measured worker counts, each with its throughput."""

    measured_as: str
    """The measured strategy or series; it may differ from the requested one."""

    used: Mapping[str, str] = field(default_factory=dict)
    """The columns of a user's table that this answer comes from: what they mean, by heading."""

    unused: tuple[str, ...] = ()


def of_table(reference: Reference, series: str | None, points: Sequence[Point]) -> Answer:
    """Answer with laws fitted to the rows of a table."""
    chosen = one_series(reference, series)
    _require_one_speed(reference, chosen)
    table = from_series(reference.title, chosen)
    rates = table.throughput(table.at, table.seconds)
    known = () if rates is None else zip(table.at.workers, rates, strict=True)
    return Answer(
        curve=forecast(table).curve(points),
        subject=chosen.label,
        unit=table.unit or "units/s",
        measured=tuple((int(workers), float(rate)) for workers, rate in known),
        measured_as=chosen.label,
        used={heading: name for heading, name in reference.used.items() if name in _OF_LAWS},
        unused=(*(heading for heading, name in reference.used.items() if name not in _OF_LAWS), *reference.unused),
    )


def of_table_if_measured(reference: Reference, series: str | None, point: Point) -> Callable[[int], Projected]:
    """How laws would project a point if one more count of a table came out as they project it now, by that count."""
    fitted = forecast(from_series(reference.title, one_series(reference, series)))
    per_node = None if point.nodes is None else -(-point.workers // point.nodes)

    def projected(also: int) -> Projected:
        there = Point(also, None if per_node is None else -(-also // per_node), point.batch)
        extended = with_row(fitted.table, fitted.settings([there]), fitted.bands)
        return forecast(extended).curve([point]).points[0]

    return projected


def _require_one_speed(reference: Reference, series: Series) -> None:
    """Refuse a speed and a step time that contradict each other: their product is the work of a step."""
    work = [
        row.throughput * row.step_seconds / (row.whole_batch or row.workers)
        for row in series.rows
        if row.throughput and row.step_seconds and row.workers
    ]
    if not work or max(work) <= _SAME_WORK * min(work):
        return
    headings = {name: heading for heading, name in reference.used.items()}
    speed, step = headings.get("throughput", "throughput"), headings.get("step_seconds", "step_seconds")
    raise DataError(
        f"{reference.title}: {speed!r} and {step!r} contradict each other: speed × step time ÷ samples ranges from "
        f"{significant(min(work))} to {significant(max(work))}. Leave one out, or correct it."
    )


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of one strategy and of one worker alone, ready for questions."""

    records: tuple[Record, ...]
    strategy: str

    @classmethod
    def of(cls, records: Sequence[Record], asked: str | None = None, series: str | None = None) -> "Runs":
        """Runs of the requested strategy, or else of the fastest one, preferably with the same name."""
        chosen = _of_one_kind(records, series)
        there = {r.spec.strategy: None for r in chosen}
        wanted = catalogue.check(asked) if asked is not None else None
        if wanted is None or wanted not in there:
            alike = [s for s in there if wanted and _name(s) == _name(wanted)]
            exchanging = [s for s in there if catalogue.exchanges(s)]
            wanted = max(alike or exchanging or there, key=lambda strategy: _fastest(chosen, strategy))
        return cls(records=tuple(r for r in chosen if r.spec.strategy == wanted or _is_alone(r)), strategy=wanted)

    @classmethod
    def of_pair(cls, records: Sequence[Record], pair: tuple[str, str], series: str | None = None) -> "Runs":
        """Runs to compare two strategies with: of one that was measured, the same whichever is named first."""
        wanted = sorted(map(catalogue.check, pair))
        there = {record.spec.strategy for record in records}
        return cls.of(records, next((strategy for strategy in wanted if strategy in there), wanted[0]), series)

    @property
    def workload(self) -> str:
        """The workload, which is the same in all runs."""
        return self.records[0].spec.workload

    @cached_property
    def simulated(self) -> Measured:
        """The measured step, ready to be simulated."""
        return Measured.of_records(self.records)

    @cached_property
    def table(self) -> Reference:
        """Measured settings of the strategy with their baseline, as one series."""
        table = ours.from_records(self.strategy, self.records)
        return replace(table, series=tuple(s for s in table.series if s.strategy == self.strategy))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the table."""
        return self.table.series[0].rows

    def ask(self, points: Sequence[Point], question: Question, progress: Progress = iter) -> Answer:
        """Answer by laws if enough was measured and only more workers are requested; otherwise simulate a step."""
        projected = None
        if self._laws_suffice(points, question):
            projected = of_table(self.table, None, points).curve
        projected = projected or curve(self.simulated, points, question, progress)
        return Answer(
            curve=replace(projected, warnings=(*projected.warnings, *self._limits())),
            subject=question.strategy or self.strategy,
            unit=self.records[0].throughput.unit,
            measured=tuple((row.workers, row.throughput) for row in self.rows if row.workers and row.throughput),
            measured_as=self.strategy,
        )

    def if_measured(self, point: Point, question: Question) -> Callable[[int], Projected]:
        """How a point would be projected if one more count came out as projected now, by that count."""
        if self._laws_suffice([point], question):
            return of_table_if_measured(self.table, None, point)
        simulated = self.simulated

        def projected(also: int) -> Projected:
            nearer = replace(simulated.profile, measured_workers=max(also, simulated.profile.measured_workers))
            return curve(replace(simulated, profile=nearer), [point], question).points[0]

        return projected

    def break_even(self, point: Point, question: Question, pair: tuple[str, str]) -> BreakEven:
        """The bandwidths between nodes at which two strategies are equally fast."""
        return break_even(self.simulated, point, question, pair)

    def _limits(self) -> Iterator[str]:
        """Warnings about the machine and the network on which the runs were measured."""
        rows = scaling_rows(self.records)
        if any(row.throughput.host_limited for row in rows):
            yield "In some runs the host was the limit, not the emulated devices: measure with a higher --slow-motion."
        most = max(self.records, key=lambda record: record.spec.workers)
        if most.network is not None:
            nodes = len(most.network.nodes)
            yield f"Measured on {nodes} nodes with {most.network.asked}; more nodes are assumed to be like them."

    def _laws_suffice(self, points: Sequence[Point], question: Question) -> bool:
        """Whether laws answer. Refuses questions that need a simulation if the runs lack the data for one."""
        more = question == Question(strategy=question.strategy) and question.strategy in (None, self.strategy)
        one_batch = len({record.batch for record in self.records}) == 1
        as_measured = more and not any(p.nodes or (p.batch and one_batch) for p in points)
        if not any(record.gradients for record in self.records):
            if not as_measured:
                raise SpecError(
                    "Another strategy, network, batch or speed cannot be predicted from these records: they hold no "
                    "gradients. Give records of longer runs."
                )
            return True
        return as_measured and len({row.workers for row in self.rows}) >= _ENOUGH_COUNTS


def _of_one_kind(records: Sequence[Record], series: str | None) -> list[Record]:
    """Records of a series, with one worker alone. Without a name, all records, if they are comparable."""
    asked = [r for r in records if series in (None, _label(r))]
    kinds = {_kind(r) for r in asked}
    networks = {r.spec.network for r in asked} - {None}  # runs on one node have none, and fit any network
    if len(kinds) != 1 or len(networks) > 1:
        what = "The records differ in their settings"
        if series is not None:
            what = f"--series {series!r} is not among the records"
        labels = dict.fromkeys(map(_label, records))
        raise SpecError(f"{what}: choose with --series one of: {', '.join(labels)}.")
    alike = [r for r in records if _kind(r) in kinds]
    return [r for r in alike if series in (None, _label(r)) or _is_alone(r)]


def _kind(record: Record) -> tuple[Any, ...]:
    """The settings that runs projected together share: a series' settings, except those that one worker lacks."""
    return ours.kind(record.spec, [n for n in with_role(Role.SERIES) if SETTINGS[n].baseline is Baseline.SAME])


def _label(record: Record) -> str:
    network = record.spec.network
    return " ".join((ours.label(record.spec), *([network] if network else [])))


def _is_alone(record: Record) -> bool:
    return bool(record.spec.workers == 1) and not catalogue.exchanges(record.spec.strategy)


def _name(strategy: str) -> str:
    """The name of the strategy without its codecs."""
    return catalogue.resolve(strategy).chosen[-1].name


def _fastest(records: Sequence[Record], strategy: str) -> tuple[int, float]:
    """Sort key: the largest worker count of the strategy, then the throughput there."""
    own = [r for r in records if r.spec.strategy == strategy]
    most = max(r.spec.workers for r in own)
    return most, rate_over([r for r in own if r.spec.workers == most]).value

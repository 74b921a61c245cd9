"""From a table or from records to the answer: which rows or runs are used, and whether laws or a simulation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from paceline.errors import SpecError
from paceline.measure.ratios import rate_over
from paceline.measure.scaling import scaling_rows
from paceline.project.curve import Point, ProjectedCurve
from paceline.project.laws.forecast import forecast
from paceline.project.laws.table import from_series, one_series
from paceline.project.questions.whatif import BreakEven, Measured, Progress, Question, break_even, curve
from paceline.record import Record
from paceline.references import records as ours
from paceline.references.base import Reference, Row
from paceline.settings import Baseline, Role
from paceline.spec import SETTINGS, with_role
from paceline.traffic import catalogue

_ENOUGH_COUNTS = 3
"""Laws are fitted from this many measured counts of workers on, unless the question needs the simulation."""


@dataclass(frozen=True)
class Answer:
    """A curve, what it is about, and what was measured."""

    curve: ProjectedCurve
    subject: str
    """The strategy, or the series of a table."""

    unit: str
    measured: tuple[tuple[int, float], ...]
    """Workers and throughput."""

    measured_as: str
    """What was measured: not always what was asked."""


def of_table(reference: Reference, series: str | None, points: Sequence[Point]) -> Answer:
    """Answer with laws fitted to the rows of a table."""
    chosen = one_series(reference, series)
    table = from_series(reference.title, chosen)
    rates = table.throughput(table.at, table.seconds)
    known = () if rates is None else zip(table.at.workers, rates, strict=True)
    return Answer(
        curve=forecast(table).curve(points),
        subject=chosen.label,
        unit=table.unit or "units/s",
        measured=tuple((int(workers), float(rate)) for workers, rate in known),
        measured_as=chosen.label,
    )


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of one strategy and of one worker alone, ready to be asked."""

    records: tuple[Record, ...]
    strategy: str

    @classmethod
    def of(cls, records: Sequence[Record], asked: str | None = None, series: str | None = None) -> "Runs":
        """Of the strategy asked for where it was run, else of the one most like it: the same name, the fastest."""
        chosen = _of_one_kind(records, series)
        there = {r.spec.strategy: None for r in chosen}
        wanted = catalogue.check(asked) if asked is not None else None
        if wanted is None or wanted not in there:
            alike = [s for s in there if wanted and _name(s) == _name(wanted)]
            exchanging = [s for s in there if catalogue.exchanges(s)]
            wanted = max(alike or exchanging or there, key=lambda strategy: _fastest(chosen, strategy))
        return cls(records=tuple(r for r in chosen if r.spec.strategy == wanted or _is_alone(r)), strategy=wanted)

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
        """Measured settings of the strategy, beside what they are compared with: one series."""
        table = ours.from_records(self.strategy, self.records)
        return replace(table, series=tuple(s for s in table.series if s.strategy == self.strategy))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the table."""
        return self.table.series[0].rows

    def ask(self, points: Sequence[Point], question: Question, progress: Progress = iter) -> Answer:
        """By laws where enough was measured and nothing but more workers is asked; otherwise by simulating a step."""
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

    def break_even(self, point: Point, question: Question, other: str) -> BreakEven:
        """The bandwidth between nodes at which another strategy is as fast as the one asked about."""
        return break_even(self.simulated, point, question, (question.strategy or self.strategy, other))

    def _limits(self) -> Iterator[str]:
        """Warnings about the machine and the network on which the runs were measured."""
        rows = scaling_rows(self.records)
        if any(row.throughput.host_limited for row in rows):
            yield "In some of these runs the host was the limit, not the devices it emulates: measure in slower motion."
        most = max(self.records, key=lambda record: record.spec.workers)
        if most.network is not None:
            nodes = len(most.network.nodes)
            yield f"Measured on {nodes} nodes with {most.network.asked}; more nodes are assumed to be like them."

    def _laws_suffice(self, points: Sequence[Point], question: Question) -> bool:
        """Whether laws answer; refused where only a simulation could, and the runs do not hold what it takes."""
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
    """Those of a series, with one worker alone; without a name, all, if they may stand beside one another."""
    asked = [r for r in records if series in (None, _label(r))]
    kinds = {_kind(r) for r in asked}
    networks = {r.spec.network for r in asked} - {None}  # one node has none, and goes with any
    if len(kinds) != 1 or len(networks) > 1:
        what = (
            f"--series {series!r} is not among the records" if series is not None else "The records are of many kinds"
        )
        labels = dict.fromkeys(map(_label, records))
        raise SpecError(f"{what}: choose with --series one of: {', '.join(labels)}.")
    alike = [r for r in records if _kind(r) in kinds]
    return [r for r in alike if series in (None, _label(r)) or _is_alone(r)]


def _kind(record: Record) -> tuple[Any, ...]:
    """What runs that are projected together share: what a series shares, but for what one worker alone never has."""
    return ours.kind(record.spec, [n for n in with_role(Role.SERIES) if SETTINGS[n].baseline is Baseline.SAME])


def _label(record: Record) -> str:
    network = record.spec.network
    return " ".join((ours.label(record.spec), *([network] if network else [])))


def _is_alone(record: Record) -> bool:
    return bool(record.spec.workers == 1) and not catalogue.exchanges(record.spec.strategy)


def _name(strategy: str) -> str:
    """What carries the gradients, whatever codes them."""
    return catalogue.resolve(strategy).chosen[-1].name


def _fastest(records: Sequence[Record], strategy: str) -> tuple[int, float]:
    """Where most workers ran it, then how fast."""
    own = [r for r in records if r.spec.strategy == strategy]
    most = max(r.spec.workers for r in own)
    return most, rate_over([r for r in own if r.spec.workers == most]).value

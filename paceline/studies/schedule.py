"""Runs one after the other, in turns; finished runs are not repeated, and a failed run does not stop the rest."""

import contextlib
import math
import signal
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from paceline.engines.base import Display, Engine
from paceline.engines.plan import plan
from paceline.errors import Interrupted, RunError
from paceline.record import Record
from paceline.studies.definition import Study
from paceline.studies.grid import Grid, Run
from paceline.studies.probe import Probe, probe, seconds_of
from paceline.studies.store import Contents, Store, is_about_writing

_START_UP_SECONDS = 2.0
"""The estimated overhead of a run beyond its requested seconds, until a run is finished."""


@dataclass(frozen=True)
class Place:
    """The progress of a study."""

    number: int
    """The number of the run, from 1, including finished runs of earlier starts."""

    total: int
    left_seconds: float | None
    """Estimated seconds for this run and all later ones; None while unknown."""


class Watcher(Protocol):
    """Shows the progress of a study."""

    def begin(self, run: Run, place: Place) -> contextlib.AbstractContextManager[Display]:
        """A run begins; the display shows its progress."""

    def done(self, run: Run, record: Record) -> None:
        """The run is finished and its record is saved."""

    def failed(self, run: Run, message: str) -> None:
        """The run failed; the study continues."""

    def note(self, text: str) -> None:
        """Show a note in one line."""


@dataclass
class _Mean:
    """A running mean, kept as a sum: a large grid needs it once per run."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float | None:
        return self.total / self.count if self.count else None


class Pace:
    """Estimated durations: from the same cell, its workload, the requested seconds, all runs, or a probe."""

    def __init__(self) -> None:
        self._cells: defaultdict[str, _Mean] = defaultdict(_Mean)
        self._workloads: defaultdict[str, _Mean] = defaultdict(_Mean)
        self._all = _Mean()
        self._probes: dict[tuple[object, ...], Probe] = {}

    def learn(self, run: Run, record: Record) -> None:
        """Add the duration of a finished run."""
        seconds = record.wall_seconds.total
        for mean in (self._cells[run.cell.key], self._workloads[run.spec.workload], self._all):
            mean.add(seconds)

    def probe(self, runs: Iterable[Run], engine: Engine, say: Callable[[str], None]) -> None:
        """Time a short part of the runs whose length is unknown."""
        self._probes = probe((run.spec for run in runs if self._one(run) is None), engine, say)

    def seconds(self, runs: Iterable[Run]) -> float | None:
        """The estimated duration of these runs; None if it is unknown."""
        known = [self._one(run) for run in runs]
        return sum(s for s in known if s is not None) if None not in known else None

    def _one(self, run: Run) -> float | None:
        for same in (self._cells[run.cell.key], self._workloads[run.spec.workload]):
            if same.value is not None:
                return same.value
        if run.spec.seconds is not None:
            return run.spec.seconds + _START_UP_SECONDS
        return self._all.value or seconds_of(run.spec, self._probes)


def asked_seconds(study: Study) -> float | None:
    """The estimated duration of a study from its requested seconds; None if a run has no time limit."""
    total = 0.0
    for _, axes in study.blocks:
        seconds = axes.get("seconds")
        if seconds is None or not all(isinstance(s, int | float) and math.isfinite(s) for s in seconds):
            return None
        runs = study.repeats * math.prod(map(len, axes.values()))
        total += runs * (statistics.fmean(seconds) + _START_UP_SECONDS)
    return total


def carry_out(grid: Grid, store: Store, engine: Engine, watcher: Watcher) -> Contents:
    """Execute every run of the grid that is not in the store yet; return the contents of the store."""
    order = grid.in_turns()
    with store.opened(grid), _signals_end_it():
        contents = store.read(order)
        for key, why in contents.damaged.items():
            watcher.note(f"{why} It was moved to {store.set_aside(key)} and will run again.")
        contents.failures.clear()  # tried again
        try:
            _work(order, contents, store, engine, watcher)
        except OSError as error:
            raise RunError(
                f"{error.filename or store.folder} cannot be written ({error.strerror}). {_kept(contents, order)} "
                "Free some space, or make it writable, and repeat the same command to resume the study."
            ) from error
        except Interrupted:
            raise Interrupted(
                f"Stopped by the user. {_kept(contents, order)} Repeat the same command to resume the study."
            ) from None
    return contents


def _work(order: Sequence[Run], contents: Contents, store: Store, engine: Engine, watcher: Watcher) -> None:
    pace = Pace()
    for run in order:
        if run.key in contents.records:
            pace.learn(run, contents.records[run.key])
    missing = [run for run in order if run.key not in contents.records]
    for position, run in enumerate(missing):
        number = len(order) - len(missing) + position + 1
        place = Place(number, len(order), pace.seconds(missing[position:]))
        try:
            with watcher.begin(run, place) as display, store.new_run(run) as folder:
                record = engine.run(plan(run.spec, engine.site), folder, display)
                if record.failures:
                    raise RunError(" ".join(record.failures))
        except Interrupted:
            raise
        except Exception as error:  # also a bug of ours: one run must not end a study of a whole night
            if isinstance(error, OSError) and is_about_writing(error):
                raise
            contents.failures[run.key] = store.note_failure(run, error)
            watcher.failed(run, f"{error}" or type(error).__name__)
        else:
            contents.records[run.key] = record
            pace.learn(run, record)
            watcher.done(run, record)


def _kept(contents: Contents, order: Sequence[Run]) -> str:
    return f"{len(contents.records)} of {len(order)} runs are finished and saved."


@contextlib.contextmanager
def _signals_end_it() -> Iterator[None]:
    """Ctrl-C and similar signals end the current run at once: an unfinished run has no record."""
    stoppers = [s for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is not signal.SIG_IGN]

    def stop(_signal: int, _frame: FrameType | None) -> None:
        for number in stoppers:
            signal.signal(number, signal.SIG_IGN)  # one signal is enough: the workers are being stopped
        raise Interrupted("Stopped by the user.")

    before = {number: signal.signal(number, stop) for number in stoppers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

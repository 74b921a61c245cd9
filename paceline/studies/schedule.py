"""Runs one after the other, in turns; finished runs are not repeated, and a failed run does not stop the rest."""

import contextlib
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from paceline.engines.base import Display, Engine
from paceline.engines.plan import plan
from paceline.errors import Interrupted, RunError
from paceline.record import Record
from paceline.studies.estimate import Pace, Span
from paceline.studies.grid import Grid, Run
from paceline.studies.store import Contents, Store, is_about_writing


@dataclass(frozen=True)
class Place:
    """The progress of a study."""

    number: int
    """The number of the run, from 1, including finished runs of earlier starts."""

    total: int
    left: Span | None
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


def carry_out(grid: Grid, store: Store, engine: Engine, watcher: Watcher, pace: Pace | None = None) -> Contents:
    """Execute every run of the grid that is not in the store yet; return the contents of the store.

    `pace` knows what was measured before, for the time left.
    """
    order = grid.in_turns()
    with store.opened(grid), _signals_end_it():
        contents = store.read(order)
        for key, why in contents.damaged.items():
            watcher.note(f"{why} It was moved to {store.set_aside(key)} and will run again.")
        contents.failures.clear()  # tried again
        try:
            _work(order, contents, store, engine, watcher, pace or Pace())
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


def _work(order: Sequence[Run], contents: Contents, store: Store, engine: Engine, watcher: Watcher, pace: Pace) -> None:
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

"""What the user sees during a study: which run of how many, the time left, and the run's own progress; on stderr."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from paceline.cli.progress import BarDisplay, LineDisplay
from paceline.cli.terminal import console as plain_console
from paceline.cli.terminal import say
from paceline.engines.base import Display, Engine
from paceline.measure.ratios import rate_of
from paceline.numbers import rate
from paceline.record import Record
from paceline.studies.estimate import Pace, Span
from paceline.studies.grid import Grid, Run
from paceline.studies.schedule import Place, carry_out
from paceline.studies.store import Contents, Store
from paceline.studies.table import figure
from paceline.units import human_seconds


class _Head:
    """The line above a run's bar; its time left counts down."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._begun = time.monotonic()

    def __rich__(self) -> Text:
        return Text(_where(self._place, time.monotonic() - self._begun))


def _where(place: Place, since: float = 0.0) -> str:
    left = place.left
    if left is None:
        return f"run {place.number} of {place.total} · time left unknown"
    remaining = f"{Span(max(round(left.low - since), 1), max(round(left.high - since), 1))} left"
    return f"run {place.number} of {place.total} · {remaining}"


class StudyProgress:
    """Shows the progress of a study: a live display on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, repeats: int) -> None:
        self._console = console
        self._repeats = repeats

    @contextlib.contextmanager
    def begin(self, run: Run, place: Place) -> Iterator[Display]:
        """Begin a run and yield the display that shows its progress."""
        if not self._console.is_terminal:
            yield LineDisplay(self._console, f"{_where(place)} · {self._name(run)}", run.spec)
            return
        display = BarDisplay(self._console, self._name(run), run.spec)
        with Live(Group(_Head(place), display.bar), console=self._console, refresh_per_second=2, transient=True):
            yield display

    def done(self, run: Run, record: Record) -> None:
        """Print a permanent line."""
        seconds = human_seconds(record.wall_seconds.total)
        speed = rate_of(record)
        unit = f" {record.throughput.unit}" if speed.known else ""
        self.note(f"{self._name(run)}: {figure(speed, rate)}{unit}, in {seconds}")

    def failed(self, run: Run, message: str) -> None:
        """Print a permanent line."""
        self.note(f"{self._name(run)} failed: {message}")

    def note(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _name(self, run: Run) -> str:
        turn = f" · turn {run.spec.turn + 1} of {self._repeats}" if self._repeats > 1 else ""
        return f"{run.spec.workload} · {run.spec.strategy} · {run.spec.workers}w{turn}"


def complete(grid: Grid, store: Store, engine: Engine, contents: Contents, pace: Pace | None = None) -> Contents:
    """Carry out the runs that are missing, and show their progress; return the contents of the store."""
    if len(contents.records) == len(grid.in_turns()):
        say(f"All {len(contents.records)} runs exist already; choose another --out to measure again.")
        return contents
    return carry_out(grid, store, engine, StudyProgress(plain_console(stderr=True), grid.study.repeats), pace)

"""What the user sees during a run: a bar on a terminal, a line every few seconds elsewhere; always on stderr."""

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from paceline.cli.output import number
from paceline.cli.terminal import console as plain_console
from paceline.engines.base import Display
from paceline.engines.plan import Plan
from paceline.numbers import significant
from paceline.record_parts import Validation
from paceline.spec import RunSpec

_LINE_EVERY_SECONDS = 5.0


class _Pace:
    """Samples per second since the first report, in device time."""

    def __init__(self, slow_motion: float) -> None:
        self._slow_motion = slow_motion
        self._first: tuple[float, int] | None = None

    def rate(self, samples: int) -> float | None:
        now = time.monotonic()
        if self._first is None:
            self._first = (now, samples)
            return None
        seconds = now - self._first[0]
        return (samples - self._first[1]) / seconds * self._slow_motion if seconds > 0.2 else None

    def line(self, step: str, samples: int, loss: float | None) -> str:
        """`step 12 · loss 0.31 · 512 samples/s`, without loss or rate where they are unknown."""
        rate = self.rate(samples)
        of_loss = "" if loss is None else f" · loss {significant(loss)}"
        return f"step {step}{of_loss}" + (f" · {significant(rate)} samples/s" if rate else "")


class BarDisplay:
    """A progress bar with loss, pace and time left."""

    def __init__(self, console: Console, title: str, spec: RunSpec) -> None:
        self._console = console
        self._seconds = spec.seconds
        self._pace = _Pace(spec.slow_motion)
        self._begun = time.monotonic()
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=2,
            transient=True,
        )
        self._task: TaskID = self.bar.add_task(title, total=None, figures="starting workers")

    def ready(self, *, step: int, total_steps: int | None) -> None:
        """Take note of the run's length, which is known now."""
        self._begun = time.monotonic()
        total = float(total_steps) if total_steps is not None else self._seconds
        self.bar.update(self._task, total=total, completed=step if total_steps else 0, figures="first step")

    def progress(self, *, step: int, samples: int, loss: float | None) -> None:
        """Show the steps done, or the seconds where time limits the run."""
        figures = self._pace.line(str(step), samples, loss)
        done = step if self._seconds is None else min(time.monotonic() - self._begun, self._seconds)
        self.bar.update(self._task, completed=done, figures=figures)

    def validation(self, result: Validation) -> None:
        """Print a permanent line above the bar."""
        self._console.print(_validation_line(result), highlight=False)

    def note(self, text: str) -> None:
        """Print a permanent line above the bar."""
        self._console.print(text, highlight=False)


class LineDisplay:
    """A line every few seconds, for logs."""

    def __init__(self, console: Console, title: str, spec: RunSpec) -> None:
        self._console = console
        self._pace = _Pace(spec.slow_motion)
        self._total: int | None = None
        self._last = time.monotonic()
        self.note(f"{title}: starting workers")

    def ready(self, *, step: int, total_steps: int | None) -> None:
        """Take note of the run's length, which is known now."""
        self._total = total_steps

    def progress(self, *, step: int, samples: int, loss: float | None) -> None:
        """Print a line every few seconds."""
        line = self._pace.line(f"{step}/{self._total}" if self._total else str(step), samples, loss)
        if time.monotonic() - self._last >= _LINE_EVERY_SECONDS:
            self._last = time.monotonic()
            self.note(line)

    def validation(self, result: Validation) -> None:
        """Print a line."""
        self.note(_validation_line(result))

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _validation_line(result: Validation) -> str:
    metrics = "".join(f" · {name} {number(value)}" for name, value in result.metrics.items())
    epoch = f"epoch {result.epoch:.3g}" if result.epoch is not None else f"step {result.step}"
    return f"{epoch} · validation loss {number(result.loss)}{metrics}"


@contextlib.contextmanager
def make_display(plan: Plan) -> Iterator[Display]:
    """The display that fits where stderr goes."""
    console = plain_console(stderr=True)
    spec = plan.spec
    title = f"{spec.workload} · {spec.strategy} · {spec.workers}w"
    if not console.is_terminal:
        yield LineDisplay(console, title, spec)
        return
    display = BarDisplay(console, title, spec)
    with display.bar:
        yield display

"""Where a worker's time goes: one mark at the end of every phase of every step."""

import time
from collections import deque
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from paceline.workers.buckets import BucketLog, Noted
from paceline.workers.queue import RunQueue
from paceline.workers.ticks import HostTicks, Tick, Ticks

Phase: TypeAlias = Literal["input", "forward", "backward", "exchange", "update", "other"]
PHASES: tuple[Phase, ...] = ("input", "forward", "backward", "exchange", "update", "other")
_FOLLOWING: dict[Phase, Phase] = dict(zip(PHASES, (*PHASES[1:], PHASES[0]), strict=True))
_COLUMNS = (
    *("begin", "end", "arrival", "backward_begin"),
    *("samples", "units", "loss", "cpu", "queued", "held", *PHASES),
)

# Looking at buckets and at single gradients costs some microseconds each. Where steps are long, buckets are watched in
# every step and gradients in one of 16; where they are short, both in one of 16 at first, so that a short run has some,
# and in one of 128 later.
_LONG_STEP_SECONDS = 0.02
_OFTEN, _SELDOM, _FIRST_SAMPLE = 16, 128, 4


class GradientWatch(Protocol):
    """Notes when each gradient was ready, in the steps it is armed for."""

    def arm(self) -> None:
        """Watch the next step."""

    def take(self) -> dict[int, Tick]:
        """What was noted in the step that is over."""

    def keep(self, step: int, noted: dict[int, Tick], backward_begin: float) -> None:
        """Read what was noted."""

    def series(self) -> dict[str, npt.NDArray[np.float64]]:
        """What was kept."""


class _Step(NamedTuple):
    """A step that is over, its moments not yet read."""

    number: int
    begun: Tick
    marks: list[tuple[Phase, Tick]]
    figures: tuple[float, ...]
    """Samples, units, loss, processor seconds, seconds queued for the processor."""

    buckets: Noted
    gradients: dict[int, Tick]


class Clock:
    """Collects phases, arrivals and counts per step; times are of the node's common monotonic clock."""

    def __init__(self, ticks: Ticks | None = None, gradients: GradientWatch | None = None) -> None:
        self.running: Phase = "input"
        """The phase that has begun: where a worker hangs, if it does."""

        self._ticks: Ticks = ticks or HostTicks()
        self.buckets = BucketLog(self._ticks)
        self._gradients = gradients
        self._marks: list[tuple[Phase, Tick]] = []
        self._begun: Tick = None
        self._begun_cpu = 0.0
        self._queue = RunQueue()
        self._begun_queued = self._arrived_queued = 0.0
        self._steps = 0
        self._unread: deque[_Step] = deque()
        self._rows: list[tuple[float, ...]] = []

    def begin(self) -> None:
        """Time starts to count; also after a pause for validation or a checkpoint."""
        self._begun, self._begun_cpu = self._ticks.now(), time.process_time()
        self._begun_queued = self._queue.seconds()

    def mark(self, phase: Phase, then: Phase | None = None) -> None:
        """All since the last mark was this phase; `then`: the one that begins, where it is not the next in order."""
        self._marks.append((phase, self._ticks.now()))
        self.running = then or _FOLLOWING[phase]
        if phase == "backward":
            self._arrived_queued = self._queue.seconds()

    def end_step(self, *, samples: int, units: int, loss: float) -> None:
        """Close a step; what no phase claimed is `other`."""
        done, self._steps = self._steps, self._steps + 1
        long = not self._rows or self._rows[-1][1] - self._rows[-1][0] >= _LONG_STEP_SECONDS
        sampled = self._steps % (_OFTEN if long or self._steps < _SELDOM else _SELDOM) == _FIRST_SAMPLE
        buckets = self.buckets.take(next_step=self._steps, watch_next=long or sampled)
        gradients = self._gradients.take() if self._gradients else {}
        if self._gradients and sampled:
            self._gradients.arm()
        cpu = time.process_time()
        self.mark("other")
        figures = (samples, units, loss, cpu - self._begun_cpu, self._arrived_queued - self._begun_queued)
        self._unread.append(_Step(done, self._begun, self._marks, figures, buckets, gradients))
        self._begun, self._begun_cpu, self._marks = self._marks[-1][1], cpu, []
        self._begun_queued = self._queue.seconds()
        while len(self._unread) > self._ticks.behind:
            self._read(self._unread.popleft())

    def _read(self, step: _Step) -> None:
        begin, *moments = self._ticks.seconds([step.begun, *(tick for _, tick in step.marks)])
        phases = dict.fromkeys(PHASES, 0.0)
        arrival = backward_begin = last = begin
        for (phase, _), moment in zip(step.marks, moments, strict=True):
            phases[phase] += moment - last
            last = moment
            if phase == "forward":
                backward_begin = moment
            elif phase == "backward":
                arrival = moment
        spent = step.buckets.spent
        in_update = min(spent["exchange"], phases["update"])
        phases["update"] -= in_update
        phases["exchange"] += in_update
        held = min(spent["held"], phases["exchange"])
        self._rows.append((begin, last, arrival, backward_begin, *step.figures, held, *phases.values()))
        self.buckets.keep(step.number, step.buckets)
        if self._gradients:
            self._gradients.keep(step.number, step.gradients, backward_begin)

    def paces(self, since: int) -> list[tuple[float, float]]:
        """Seconds and units of every step that has been read, from step `since` on."""
        begin, end, units = (_COLUMNS.index(name) for name in ("begin", "end", "units"))
        return [(row[end] - row[begin], row[units]) for row in self._rows[since:]]

    def series(self) -> dict[str, npt.NDArray[np.float64]]:
        """Every step's figures, by name; then those of watched buckets and sampled gradients."""
        while self._unread:
            self._read(self._unread.popleft())
        table = np.array(self._rows, dtype=np.float64).reshape(-1, len(_COLUMNS))
        steps = {name: table[:, column] for column, name in enumerate(_COLUMNS)}
        return {**steps, **self.buckets.series(), **(self._gradients.series() if self._gradients else {})}

"""Where a worker's time goes: one mark at the end of every phase of every step."""

import math
import time
from array import array
from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from paceline.measure.series import Series, WorkerSeries
from paceline.workers.timing.buckets import NOTHING_SPENT, BucketLog, Noted
from paceline.workers.timing.marks import PHASES, Marks, Phase
from paceline.workers.timing.thread_times import ThreadTimes
from paceline.workers.timing.ticks import HostTicks, Tick, Ticks

_FOLLOWING: dict[Phase, Phase] = dict(zip(PHASES, (*PHASES[1:], PHASES[0]), strict=True))
_FIGURES = ("samples", "units", "loss", "in_update", "held", "agreed")
_UNITS = _FIGURES.index("units")

# Looking at buckets and single gradients costs some microseconds each, asking the system for processor time as much.
# Where steps are long, all are asked, their buckets watched, and the gradients of one in 16 sampled. Where they are
# short, one in 4 is asked and one in 16 watched and sampled at first, so that a short run has some; later one in 32 and
# one in 256, and the others cost nothing but their marks.
_LONG_STEP_SECONDS = 0.02
_YOUNG_STEPS, _FIRST_SAMPLE = 128, 4
_SAMPLE_OFTEN, _SAMPLE_SELDOM = 16, 256
_ASK_OFTEN, _ASK_SELDOM = 4, 32


class GradientWatch(Protocol):
    """Notes when each gradient was ready, in the steps it is armed for."""

    def arm(self) -> None:
        """Watch the next step."""

    def take(self) -> dict[int, Tick]:
        """Return what was noted in the finished step."""

    def keep(self, step: int, noted: dict[int, Tick], backward_begin: float) -> None:
        """Convert what was noted to seconds, and keep it."""

    def series(self) -> dict[str, Series]:
        """Return what was kept."""


class _Watched(NamedTuple):
    """What was noted in a watched step."""

    step: int
    buckets: Noted
    gradients: dict[int, Tick]


class Clock:
    """Collects phases, arrivals and counts per step; times are those of the node's monotonic clock."""

    def __init__(self, ticks: Ticks | None = None, gradients: GradientWatch | None = None) -> None:
        self.running: Phase = "input"
        """The current phase; it shows where a hanging worker is."""

        self._ticks: Ticks = ticks or HostTicks()
        self.buckets = BucketLog(self._ticks)
        self._gradients = gradients
        self._marks = Marks()
        self._noted: list[Tick] = []
        self._now, self._note, self._note_phase = self._ticks.now, self._noted.append, self._marks.phases.append
        self._unread: deque[tuple[list[Tick], _Watched | None]] = deque()
        self._steps = 0
        self._figures: list[float] = []
        self._cpu = array("d")
        self._attend = 0
        """After this many steps there is more to do than to note marks."""

        self._watching = self._asking = False
        self._asked_cpu = self._agreed = 0.0
        self._thread = ThreadTimes()

    def begin(self) -> None:
        """Start counting time; also after a pause for validation or a checkpoint."""
        self._note(self._now())
        self._note_phase("begin")
        self._cpu.extend([math.nan] * (self._steps - len(self._cpu)))
        self._asked_cpu = time.process_time()
        self._ask()

    def mark(self, phase: Phase, then: Phase | None = None) -> None:
        """Assign the time since the last mark to this phase; `then` is the next phase, if it is not the next in order.

        It only appends to lists: nothing is cheaper once the caches are full of a model's numbers.
        """
        self._note(self._now())
        self._note_phase(phase)
        self.running = then or _FOLLOWING[phase]
        if self._asking:
            self._thread.mark(phase)

    def agreed(self, seconds: float) -> None:
        """Count these seconds between the phases as waiting for the other workers."""
        self._agreed += seconds

    def end_step(self, *, samples: int, units: int, loss: float) -> None:
        """End a step; time outside all phases is `other`."""
        self._steps += 1
        self._figures.extend((samples, units, loss, *self.buckets.spent, self._agreed))
        self.buckets.spent, self._agreed = NOTHING_SPENT, 0.0
        if self._steps < self._attend:
            self.mark("other")
        else:
            watched = self._take_watched()
            self.mark("other")
            self._unread.append((self._noted.copy(), watched))
            self._noted.clear()
            self._read(self._ticks.behind)
            self._prepare_next()

    def _take_watched(self) -> _Watched | None:
        """Return what was noted in the finished step, if it was watched; read CPU time, if it is due."""
        if self._asking:
            self._share_processor_time()
        if not self._watching:
            return None
        return _Watched(self._steps - 1, self.buckets.take(), self._gradients.take() if self._gradients else {})

    def _share_processor_time(self) -> None:
        """Divide the CPU time since the last reading equally over the steps since then."""
        now, steps = time.process_time(), self._steps - len(self._cpu)
        self._cpu.extend([(now - self._asked_cpu) / steps] * steps)
        self._asked_cpu, self._asking = now, False
        self._thread.keep(self._steps - 1)

    def _prepare_next(self) -> None:
        """Decide whether to read CPU time, watch buckets and sample gradients next, and when to decide again."""
        step, done = self._steps, len(self._marks.ends())
        long = not done or self._marks.seconds(done - 1) >= _LONG_STEP_SECONDS
        young = step < _YOUNG_STEPS
        asks, samples = (_ASK_OFTEN, _SAMPLE_OFTEN) if young else (_ASK_SELDOM, _SAMPLE_SELDOM)
        sampled = step % (_SAMPLE_OFTEN if long else samples) == _FIRST_SAMPLE
        self._watching = long or sampled
        self.buckets.watch(step, self._watching)
        if sampled and self._gradients:
            self._gradients.arm()
        if long or step % asks == _FIRST_SAMPLE % asks:
            self._ask()
        else:
            self._attend = step + (1 if self._ticks.behind else (_FIRST_SAMPLE - step) % asks)

    def _ask(self) -> None:
        """Read in this step how long this worker ran, and how long it was ready to run but waited for a core."""
        self._asking, self._attend = True, self._steps + 1
        self._thread.begin()

    def _read(self, behind: int) -> None:
        """Convert marks to seconds, except those of the last `behind` entries."""
        while len(self._unread) > behind:
            ticks, watched = self._unread.popleft()
            self._marks.moments.extend(self._ticks.seconds(ticks))
            if watched:
                self._keep(watched)

    def _keep(self, watched: _Watched) -> None:
        self.buckets.keep(watched.step, watched.buckets)
        if self._gradients:
            self._gradients.keep(watched.step, watched.gradients, self._marks.last("forward"))

    def paces(self, since: int) -> list[tuple[float, float]]:
        """Seconds and units of every step whose times are known, from step `since` on."""
        steps = range(since, len(self._marks.ends()))
        return [(self._marks.seconds(step), self._figures[step * len(_FIGURES) + _UNITS]) for step in steps]

    def series(self) -> WorkerSeries:
        """Every step's figures, and those of watched buckets and sampled gradients."""
        self._unread.append((self._noted.copy(), None))
        self._noted.clear()
        self._read(behind=0)
        steps = self._marks.steps()
        table = np.array(self._figures, dtype=np.float64).reshape(-1, len(_FIGURES))
        figures = dict(zip(_FIGURES, table.T, strict=True))
        figures["cpu"] = np.concatenate((np.array(self._cpu), np.full(self._steps - len(self._cpu), np.nan)))
        in_update = np.minimum(figures.pop("in_update"), steps["update"])
        steps["update"] = steps["update"] - in_update
        steps["exchange"] = steps["exchange"] + in_update
        figures["held"] = np.minimum(figures["held"], steps["exchange"])
        figures["agreed"] = np.minimum(figures["agreed"], steps["other"])
        steps["other"] = steps["other"] - figures["agreed"]
        watched = {**self.buckets.series(), **(self._gradients.series() if self._gradients else {})}
        return WorkerSeries.of({**steps, **figures, **watched, **self._thread.series(self._steps)})

"""CPU time of the thread that trains, and how long it queued for a core, for each phase of the steps that are read."""

import time

import numpy as np
import numpy.typing as npt

from paceline.measure.series import THREAD_PHASES
from paceline.workers.timing.marks import Phase
from paceline.workers.timing.queue import RunQueue

_COLUMNS = {phase: column for column, phase in enumerate(THREAD_PHASES)}
_ARRIVED = THREAD_PHASES.index("backward") + 1


class ThreadTimes:
    """Belongs to the thread that creates it."""

    def __init__(self) -> None:
        self._queue = RunQueue()
        self._last = (0.0, 0.0)
        self._cpu = [0.0] * len(THREAD_PHASES)
        self._queued = [0.0] * len(THREAD_PHASES)
        self._rows: dict[int, tuple[list[float], list[float]]] = {}

    def begin(self) -> None:
        """Begin a step that is read."""
        self._cpu, self._queued = [0.0] * len(THREAD_PHASES), [0.0] * len(THREAD_PHASES)
        self._last = (time.thread_time(), self._queue.seconds())

    def mark(self, phase: Phase) -> None:
        """Assign what passed since the last mark to this phase; a phase may end several times in a step."""
        now = (time.thread_time(), self._queue.seconds())
        column = _COLUMNS.get(phase)
        if column is not None:
            self._cpu[column] += now[0] - self._last[0]
            self._queued[column] += now[1] - self._last[1]
        self._last = now

    def keep(self, step: int) -> None:
        """Keep what was read in the finished step."""
        self._rows[step] = (self._cpu, self._queued)

    def series(self, steps: int) -> dict[str, npt.NDArray[np.float64]]:
        """A row for every step; NaN in steps that were not read. `queued` is the sum until the gradients were ready."""
        table = np.full((2, steps, len(THREAD_PHASES)), np.nan)
        for step, row in self._rows.items():
            table[:, step] = row
        return {
            "thread_cpu": table[0],
            "thread_queued": table[1],
            "queued": table[1, :, :_ARRIVED].sum(axis=1),
        }

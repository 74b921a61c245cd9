"""Where a worker's time goes: one mark at the end of every phase of every step."""

import time
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Phase: TypeAlias = Literal["input", "forward", "backward", "exchange", "update", "other"]
PHASES: tuple[Phase, ...] = ("input", "forward", "backward", "exchange", "update", "other")


class Clock:
    """Collects phases, arrivals and counts per step; times are of the node's common monotonic clock."""

    def __init__(self) -> None:
        self.running: Phase = "input"
        """The phase that has begun: where a worker hangs, if it does."""

        self._last = 0.0
        self._phases = dict.fromkeys(PHASES, 0.0)
        self._arrived = 0.0
        self._begun = 0.0
        self._rows: list[tuple[float, ...]] = []

    def begin(self) -> None:
        """Time starts to count; also after a pause for validation or a checkpoint."""
        self._last = self._begun = time.perf_counter()

    def mark(self, phase: Phase, then: Phase | None = None) -> None:
        """All since the last mark was this phase; `then`: the one that begins, where it is not the next in order."""
        now = time.perf_counter()
        self._phases[phase] += now - self._last
        self._last = now
        self.running = then or PHASES[(PHASES.index(phase) + 1) % len(PHASES)]
        if phase == "backward":
            self._arrived = now

    def end_step(self, *, samples: int, units: int, loss: float) -> None:
        """Close a step; what no phase claimed is `other`."""
        self.mark("other")
        phases = tuple(self._phases[name] for name in PHASES)
        self._rows.append((self._begun, self._last, self._arrived, samples, units, loss, *phases))
        self._phases = dict.fromkeys(PHASES, 0.0)
        self._begun = self._last

    def series(self) -> dict[str, npt.NDArray[np.float64]]:
        """Every step's figures, by name."""
        names = ("begin", "end", "arrival", "samples", "units", "loss", *PHASES)
        table = np.array(self._rows, dtype=np.float64).reshape(-1, len(names))
        return {name: table[:, column] for column, name in enumerate(names)}

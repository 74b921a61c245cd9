"""When each bucket's gradients were ready, and when its exchange started and ended, in watched steps."""

import sys
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from paceline.workers.timing.ticks import Tick, Ticks

_MOST_ROWS = 100_000

# A thread of the process group reports the end of an exchange, and needs the interpreter for a moment. While it
# waits for it, the next exchange waits for that thread: on watched steps it gets it at once, not after Python's 5 ms.
_WATCHED_SWITCH_SECONDS = 2e-5
_USUAL_SWITCH_SECONDS = sys.getswitchinterval()

NOTHING_SPENT = (0.0, 0.0)


class Noted(NamedTuple):
    """What happened to the buckets of one step."""

    ready: dict[int, tuple[int, Tick]]
    """Bytes, and the moment when the gradients were ready."""

    start: dict[int, Tick]
    end: dict[int, Tick]


class BucketLog:
    """Strategies report buckets here. Rows are kept for watched steps; in a long run, for fewer and fewer of them."""

    def __init__(self, ticks: Ticks) -> None:
        self.watching = False
        self._ticks = ticks
        self._stride = 1
        self._noted = Noted({}, {}, {})
        self.spent = NOTHING_SPENT
        """Seconds of this step: exchange during the update, and waiting because of a staleness bound."""

        self._rows: list[tuple[float, ...]] = []

    def ready(self, bucket: int, payload_bytes: int) -> None:
        """Note that all gradients of this bucket are ready."""
        if self.watching:
            self._noted.ready[bucket] = (payload_bytes, self._ticks.now())

    def start(self, bucket: int) -> None:
        """Note that the exchange of this bucket begins."""
        if self.watching:
            self._noted.start[bucket] = self._ticks.now()

    def end(self, bucket: int) -> None:
        """Note that the exchange of this bucket is over; with several pieces, the last call counts."""
        if self.watching:
            self._noted.end[bucket] = self._ticks.now()

    def spend(self, what: Literal["exchange", "held"], seconds: float) -> None:
        """Count these seconds as exchange or as waiting instead of the phase in which they were spent."""
        exchange, held = self.spent
        self.spent = (exchange + seconds, held) if what == "exchange" else (exchange, held + seconds)

    def watch(self, step: int, watching: bool) -> None:
        """Set whether the step that begins is watched."""
        watching = watching and step % self._stride == 0
        if watching != self.watching:
            sys.setswitchinterval(_WATCHED_SWITCH_SECONDS if watching else _USUAL_SWITCH_SECONDS)
            self.watching = watching

    def take(self) -> Noted:
        """Return what was noted in the finished step."""
        noted, self._noted = self._noted, Noted({}, {}, {})
        return noted

    def keep(self, step: int, noted: Noted) -> None:
        """Convert what was noted to seconds, and keep it."""
        for bucket in noted.ready.keys() & noted.start.keys() & noted.end.keys():
            payload_bytes, ready = noted.ready[bucket]
            moments = self._ticks.seconds([ready, noted.start[bucket], noted.end[bucket]])
            self._rows.append((step, bucket, payload_bytes, *moments))
        if len(self._rows) > _MOST_ROWS:
            self._stride *= 2
            self._rows = [row for row in self._rows if row[0] % self._stride == 0]

    def series(self) -> dict[str, npt.NDArray[np.float64]]:
        """Every kept bucket's figures, by name."""
        names = ("step", "index", "bytes", "ready", "start", "end")
        table = np.array(self._rows, dtype=np.float64).reshape(-1, len(names))
        return {f"bucket_{name}": table[:, column] for column, name in enumerate(names)}

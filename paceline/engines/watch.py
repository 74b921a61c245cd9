"""The state of each worker: its last message, whether it is late, and which failure was the cause."""

import statistics
import time
from dataclasses import dataclass, field

from paceline import errors
from paceline.errors import PacelineError, RunError, ServerLost, WorkerFailed
from paceline.workers.messages import Failed, Located
from paceline.workers.report import WorkerReport

_BEFORE_FIRST_STEP_SECONDS = 300.0
_LEAST_SECONDS = 30.0
_MEDIAN_STEPS = 10
_REMEMBERED_PACES = 101


@dataclass
class Failure:
    """The failure of one worker or server, and how likely it caused the other failures."""

    rank: int
    error: type[PacelineError]
    message: str
    weight: int
    """A killed process (2) explains its peers' errors; a named error (1) explains more than a lost connection (0)."""

    step: int = 0
    """Steps it had finished: a loss that is not finite spreads to its peers in their next step."""


@dataclass
class Watched:
    """One worker as seen from the process that started it."""

    rank: int
    report: WorkerReport | None = None
    location: Located | None = None
    precise: bool = False
    """Whether it has measured its throughput as precisely as the user asked for."""

    waiting: bool = False
    """Whether it has done its part and waits for the others."""

    step: int | None = None
    heard: float = field(default_factory=time.monotonic)
    """When it last made progress."""

    _paces: list[float] = field(default_factory=list)

    def progressed(self, step: int) -> None:
        """Note that it has finished `step` steps."""
        now = time.monotonic()
        if self.step is not None and step > self.step:
            self._paces = [*self._paces[-_REMEMBERED_PACES:], (now - self.heard) / (step - self.step)]
        self.step, self.heard, self.waiting = step, now, False

    def allowed_seconds(self, timeout: float | None) -> float:
        """How long it may be silent before it counts as hanging."""
        usual = timeout if timeout is not None else _LEAST_SECONDS
        if not self._paces:
            return max(usual, _BEFORE_FIRST_STEP_SECONDS)
        return usual if timeout is not None else max(usual, _MEDIAN_STEPS * self.step_seconds)

    @property
    def step_seconds(self) -> float:
        """Its median step in seconds; 0 before it is known."""
        return statistics.median(self._paces) if self._paces else 0.0

    def late_seconds(self, timeout: float | None) -> float | None:
        """How long it has been silent, if that is too long; otherwise None."""
        silent = time.monotonic() - self.heard
        return silent if self.report is None and silent > self.allowed_seconds(timeout) else None


def cause(failures: list[Failure]) -> Failure:
    """The failure that explains the others: highest weight, then earliest step, then first in the list."""
    return min(failures, key=lambda f: (-f.weight, f.step))


def failure_from(rank: int, message: Failed) -> Failure:
    """The failure that a worker reported."""
    error = errors.by_name(message.error)
    weight = 0 if error in (WorkerFailed, ServerLost, RunError) else 1  # a server's refusal is a RunError
    return Failure(rank, error, message.message, weight, step=message.step)

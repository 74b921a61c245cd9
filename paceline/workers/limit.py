"""When training ends: after a number of steps or seconds, when the throughput is precise enough, or on request."""

import time
from collections.abc import Callable

import torch

from paceline.strategies.group import Group

_LOOK_EVERY_SECONDS = 0.5


class Limit:
    """Ends training at the same step on every worker.

    With a strategy that waits for all workers, no worker may stop a step earlier than the others. Rank 0 decides and
    sends its decision at steps that all know beforehand, about twice a second. Otherwise each worker decides alone.
    """

    def __init__(
        self,
        group: Group,
        *,
        total_steps: int | None,
        seconds: float | None,
        synchronous: bool,
        asked_to_stop: Callable[[], bool],
        precise_enough: Callable[[], bool] | None = None,
        paused_seconds: Callable[[], float] = lambda: 0.0,
        waited: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._group = group
        self._total_steps = total_steps
        self._seconds = seconds
        self._together = synchronous and group.size > 1
        self._asked_to_stop = asked_to_stop
        self._precise_enough = precise_enough
        self._paused_seconds = paused_seconds
        self._waited = waited
        self._next_look = 0
        self._begun = self._last_look = time.perf_counter()
        self._last_step = 0

    def begin(self, step: int) -> None:
        """Start counting time before step `step`."""
        self._begun = self._last_look = time.perf_counter()
        self._last_step = self._next_look = step

    def reached(self, done: int) -> bool:
        """Whether training ends after `done` steps, including those before a resume."""
        if self._total_steps is not None and done >= self._total_steps:
            return True
        if not self._together:
            return self._over()
        if done <= self._next_look:
            return False
        over, following = self._agree(done)
        self._next_look = following
        return over

    def _left_seconds(self) -> float:
        """Seconds of training that are left; validation and checkpoints do not count."""
        assert self._seconds is not None, "asked only where there is a limit"
        return self._seconds - (time.perf_counter() - self._begun - self._paused_seconds())

    def _over(self) -> bool:
        late = self._seconds is not None and self._left_seconds() <= 0
        return late or self._asked_to_stop() or (self._precise_enough is not None and self._precise_enough())

    def _agree(self, done: int) -> tuple[bool, int]:
        now = time.perf_counter()
        pace = (now - self._last_look) / max(1, done - self._last_step)
        self._last_look, self._last_step = now, done
        ahead = int(_LOOK_EVERY_SECONDS / max(pace, 1e-6))
        if self._seconds is not None:
            ahead = min(ahead, int(self._left_seconds() / max(pace, 1e-6)))
        word = torch.tensor([int(self._over()), done + max(ahead, 0)])
        asked = time.perf_counter()
        decision = self._group.all_gather(word)[0]  # all wait here for the last one, and for its answer
        self._waited(time.perf_counter() - asked)
        return bool(decision[0]), int(decision[1])

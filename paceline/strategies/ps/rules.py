"""When a worker that has pushed its gradients may update: together with all others, or alone within a bound."""

import math
import time
from abc import ABC, abstractmethod
from typing import TypeAlias

from paceline.strategies.ps.launch import ServerConfig
from paceline.strategies.ps.owned import OwnedRange, Refusal, Values
from paceline.strategies.ps.wire import Message

Answers: TypeAlias = list[tuple[int, Message]]
"""The worker that gets an answer, and the answer."""


class Rule(ABC):
    """When a worker that has pushed may update, and with which gradients."""

    def __init__(self, owned: OwnedRange, config: ServerConfig) -> None:
        self.owned = owned
        self.workers = config.workers
        self.left: set[int] = set()

    @abstractmethod
    def push(self, worker: int, gradients: Values) -> Answers:
        """A worker's gradients arrived; answer `go` to every worker that may update now."""

    @abstractmethod
    def apply(self, worker: int, lr: float, scale: float) -> Answers:
        """Apply the update of a worker; answer with parameters, and `go` to workers that waited for it."""

    def pull(self, worker: int) -> Answers:
        """Answer with the current parameters; the worker takes part from now on."""
        return [(worker, self._parameters(self.owned.values()))]

    def _parameters(self, values: Values) -> Message:
        return Message("parameters", {"updating_seconds": self.owned.updating_seconds}, values)

    def rest(self, worker: int) -> Answers:
        """The worker pushes nothing until it pulls, so no worker waits for it."""
        return []

    def leave(self, worker: int) -> Answers:
        """The worker pushes nothing any more."""
        self.left.add(worker)
        return self.rest(worker)

    def report(self) -> dict[str, float]:
        """Figures for the record."""
        return {}


class Together(Rule):
    """sync: one update per step, from the sum of all workers' gradients.

    Parameters are sent without a copy: the next update needs a push of every worker, and each pushes only after it
    has received them.
    """

    def __init__(self, owned: OwnedRange, config: ServerConfig) -> None:
        super().__init__(owned, config)
        self._pushed: dict[int, Values] = {}
        self._to_apply: set[int] = set()
        self._applied: tuple[float, float] | None = None
        """Learning rate and scale of this step's update, once it is applied."""

    def push(self, worker: int, gradients: Values) -> Answers:
        if worker in self._pushed or worker in self._to_apply:
            raise Refusal(f"worker {worker} pushed twice in one step")
        self._pushed[worker] = gradients
        if self.left:
            return self.rest(worker)
        if len(self._pushed) < self.workers:
            return []
        # in order of rank, so that the sum does not depend on the order of arrival
        squared_norm = self.owned.add_up(self._pushed[rank] for rank in range(self.workers))
        self._pushed = {}
        self._to_apply = set(range(self.workers))
        self._applied = None
        return [(rank, Message("go", {"squared_norm": squared_norm})) for rank in range(self.workers)]

    def apply(self, worker: int, lr: float, scale: float) -> Answers:
        if worker not in self._to_apply:
            raise Refusal(f"worker {worker} may not update before it has pushed and got `go`")
        if self._applied is None:
            self.owned.update(lr, scale)
            self._applied = (lr, scale)
        elif self._applied != (lr, scale):
            raise Refusal(f"workers disagree on lr and scale of one update: {self._applied} and {(lr, scale)}")
        self._to_apply.remove(worker)
        return self.pull(worker)

    def rest(self, worker: int) -> Answers:
        if not self.left:
            return []
        waiting, self._pushed = sorted(self._pushed), {}
        reason = f"worker {min(self.left)} has left, and a synchronous update needs every worker"
        return [(rank, Message("refused", {"reason": reason})) for rank in waiting]


class Alone(Rule):
    """async and stale: one update per push, from that worker's gradients.

    With a bound, a worker that has made c updates since the last settle may make the next one when
    c − min over the workers that take part ≤ bound. Parameters are copied before they are sent: another worker's
    update may be applied while they are in flight.
    """

    def __init__(self, owned: OwnedRange, config: ServerConfig) -> None:
        super().__init__(owned, config)
        self._bound = math.inf if config.bound is None else config.bound
        self._updates = dict.fromkeys(range(config.workers), 0)
        """The number of updates of every worker that takes part."""

        self._seen = dict.fromkeys(range(config.workers), 0)
        """The version of the parameters that each worker holds."""

        self._pushed: dict[int, Values] = {}
        self._waiting: dict[int, float] = {}
        """Workers that have pushed and may not update yet, and since when."""

        self._staleness_sum = self._staleness_max = self._count = 0

    def push(self, worker: int, gradients: Values) -> Answers:
        if worker in self._pushed:
            raise Refusal(f"worker {worker} pushed twice in one step")
        self._updates.setdefault(worker, 0)
        self._pushed[worker] = gradients
        self._waiting[worker] = time.monotonic()
        return self._let_go()

    def _let_go(self) -> Answers:
        slowest = min(self._updates.values(), default=0)
        free = sorted(w for w in self._waiting if self._updates[w] - slowest <= self._bound)
        now = time.monotonic()
        return [(worker, Message("go", {"held_seconds": now - self._waiting.pop(worker)})) for worker in free]

    def apply(self, worker: int, lr: float, scale: float) -> Answers:
        if worker not in self._pushed or worker in self._waiting:
            raise Refusal(f"worker {worker} may not update before it has pushed and got `go`")
        staleness = self.owned.version - self._seen[worker]
        self._staleness_sum += staleness
        self._staleness_max = max(self._staleness_max, staleness)
        self._count += 1
        self.owned.add_up([self._pushed.pop(worker)])
        self.owned.update(lr, scale)
        self._updates[worker] += 1
        return [*self._fresh(worker), *self._let_go()]

    def _fresh(self, worker: int) -> Answers:
        self._seen[worker] = self.owned.version
        return [(worker, self._parameters({name: value.clone() for name, value in self.owned.values().items()}))]

    def pull(self, worker: int) -> Answers:
        # workers pull between the barriers of a settle, when none pushes: all counts restart together
        self._updates[worker] = 0
        return self._fresh(worker)

    def rest(self, worker: int) -> Answers:
        self._updates.pop(worker, None)
        self._pushed.pop(worker, None)
        self._waiting.pop(worker, None)
        return self._let_go()

    def report(self) -> dict[str, float]:
        return {"staleness_sum": self._staleness_sum, "staleness_max": self._staleness_max, "updates": self._count}

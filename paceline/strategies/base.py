"""The two protocols everything hangs on: a strategy makes a replica; a replica agrees with its peers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from torch import Tensor, nn

from paceline.recipe import OptimizerRecipe
from paceline.record_parts import StrategyFigures
from paceline.strategies.group import Group
from paceline.strategies.state import StateDict


@dataclass(frozen=True)
class Share:
    """How much one loss weighs: of how many samples it is the mean, and of how many the update will be.

    Known before backward, because buckets are on their way before backward ends.
    """

    samples: int
    worker_samples: int
    """Samples of this worker in this update, over all its micro-batches."""

    global_samples: int
    """Samples of all workers in this update."""

    @property
    def of_worker(self) -> float:
        """Weight in the mean over this worker's samples."""
        return self.samples / self.worker_samples if self.worker_samples else 0.0

    @property
    def of_all(self) -> float:
        """Weight in the mean over everybody's samples."""
        return self.samples / self.global_samples


@dataclass
class State:
    """What a replica must save to go on exactly where it was; tensors, numbers, strings, lists and dicts only."""

    shared: StateDict = field(default_factory=dict)
    """The same for all workers: rank 0's is kept."""

    own: StateDict = field(default_factory=dict)
    """This worker's alone: buffers, residuals, replicas that do not agree."""


class Events(Protocol):
    """Where a strategy reports what happens to its buckets; it reads the time itself."""

    watching: bool
    """Whether this step is looked at closely: the end of an exchange is then told the moment it happens."""

    def ready(self, bucket: int, payload_bytes: int) -> None:
        """All gradients of this bucket are there."""

    def start(self, bucket: int) -> None:
        """The exchange of this bucket begins."""

    def end(self, bucket: int) -> None:
        """The exchange of this bucket is over on this worker; any thread may say so, and the last word counts."""

    def spend(self, what: Literal["exchange", "held"], seconds: float) -> None:
        """So much of this step's update was exchange, or of its exchange being held back by a staleness bound."""


class NoEvents:
    """Nobody listens."""

    watching = False

    def ready(self, bucket: int, payload_bytes: int) -> None:
        """Ignored."""

    def start(self, bucket: int) -> None:
        """Ignored."""

    def end(self, bucket: int) -> None:
        """Ignored."""

    def spend(self, what: Literal["exchange", "held"], seconds: float) -> None:
        """Ignored."""


class Replica(Protocol):
    """One worker's copy of the model, kept in agreement with the others'."""

    model: nn.Module
    """Call this forward."""

    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        """Compute gradients; the exchange may start. `last=False` only accumulates.

        Without `share` every worker is taken to bring the same number of samples, in one loss.
        """

    def exchange(self, samples: int) -> None:
        """Return when this worker may update; all waiting is here. `samples`: this worker's in this update."""

    def update(self, lr: float) -> None:
        """Apply."""

    def settle(self) -> None:
        """Bring weights and buffers into agreement, before validation and checkpoints."""

    def report(self) -> StrategyFigures:
        """Figures of the strategy's own for the record, such as mean staleness; empty for most."""

    def state(self) -> State:
        """All that `load` needs."""

    def load(self, state: State) -> None:
        """Go on from a saved state."""

    def close(self) -> None:
        """End whatever was started; called once."""


class Strategy(Protocol):
    """How replicas agree. It sees tensors, its group and where to report events: never loop, spec or clock."""

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica of `model` that starts from rank 0's weights."""


class Carrier(Protocol):
    """Brings tensors into agreement outside of backward, for schedules that do not agree in every step."""

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Replace contiguous tensors in place by the mean, or the sum, over all workers; a synchronisation point."""

    def state(self) -> StateDict:
        """What its codec keeps from one agreement to the next: this worker's own."""

    def load(self, state: StateDict) -> None:
        """Go on from a saved state."""


class Transport(Strategy, Protocol):
    """How it travels: by itself a strategy that agrees on gradients in every step."""

    def carrier(self, tensors: Sequence[Tensor], group: Group) -> Carrier:
        """For a schedule that agrees on tensors of these sizes every so many steps."""

"""The two central protocols: a strategy creates a replica; a replica synchronises with its peers."""

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
    """The weight of one loss: the number of samples in its mean, and in the whole update.

    It must be known before backward, because buckets are sent before backward ends.
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
        """Weight in the mean over all workers' samples."""
        return self.samples / self.global_samples


@dataclass
class State:
    """What a replica must save to resume exactly; tensors, numbers, strings, lists and dicts only."""

    shared: StateDict = field(default_factory=dict)
    """The same for all workers: only that of rank 0 is saved."""

    own: StateDict = field(default_factory=dict)
    """This worker's own: buffers, residuals, replicas that are not synchronised."""


class Events(Protocol):
    """Where a strategy reports what happens to its buckets; it reads the time itself."""

    watching: bool
    """Whether this step is recorded in detail: the end of an exchange is then reported the moment it happens."""

    def ready(self, bucket: int, payload_bytes: int) -> None:
        """All gradients of this bucket are ready."""

    def start(self, bucket: int) -> None:
        """The exchange of this bucket begins."""

    def end(self, bucket: int) -> None:
        """The exchange of this bucket ended on this worker; any thread may report it, and the last report counts."""

    def spend(self, what: Literal["exchange", "held"], seconds: float) -> None:
        """Count these seconds of the update as exchange, or of the exchange as blocked by a staleness bound."""


class NoEvents:
    """Ignores all events."""

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
    """One worker's copy of the model, synchronised with those of the others."""

    model: nn.Module
    """The module to call for forward."""

    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        """Compute gradients; the exchange may start. `last=False` only accumulates.

        Without `share`, all workers are assumed to have the same number of samples, in one loss.
        """

    def exchange(self, samples: int) -> None:
        """Return when this worker may update; all waiting is here. `samples`: those of this worker in this update."""

    def update(self, lr: float) -> None:
        """Apply."""

    def settle(self) -> None:
        """Synchronise weights and buffers, before validation and checkpoints."""

    def report(self) -> StrategyFigures:
        """Additional figures of the strategy for the record, such as mean staleness; empty for most."""

    def state(self) -> State:
        """The state that `load` needs."""

    def load(self, state: State) -> None:
        """Resume from a saved state."""

    def close(self) -> None:
        """Stop everything that was started; called once."""


class Strategy(Protocol):
    """How replicas synchronise. It sees tensors, its group and where to report events: never loop, spec or clock."""

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica of `model` that starts from rank 0's weights."""


class Carrier(Protocol):
    """Synchronises tensors outside of backward, for schedules that do not synchronise in every step."""

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Replace contiguous tensors in place by the mean, or the sum, over all workers; a synchronisation point."""

    def state(self) -> StateDict:
        """The state of its codec between two synchronisations: this worker's own."""

    def load(self, state: StateDict) -> None:
        """Resume from a saved state."""


class Transport(Strategy, Protocol):
    """How data is sent; by itself, a strategy that exchanges gradients in every step."""

    def carrier(self, tensors: Sequence[Tensor], group: Group) -> Carrier:
        """A carrier for a schedule that synchronises tensors of these sizes every few steps."""

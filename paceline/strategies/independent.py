"""Every worker trains alone, without communication: the upper bound of throughput."""

import torch
from torch import Tensor, nn

from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import Events, Replica, Share, State
from paceline.strategies.group import Group
from paceline.strategies.local import LocalReplica, copy_of, load_into
from paceline.traffic.independent import Independent


class IndependentReplica(LocalReplica):
    """Starts from rank 0's weights and then trains alone."""

    def __init__(self, module: nn.Module, recipe: OptimizerRecipe, group: Group) -> None:
        super().__init__(module, recipe, group, mean_over_all=False)
        self.model = module

    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        """Compute gradients of the mean over this worker's samples."""
        torch.autograd.backward(loss * self._shares.weight(share))

    def settle(self) -> None:
        """Do nothing: every worker validates and saves its own weights and buffers."""

    def state(self) -> State:
        """Everything is this worker's own."""
        return State(own={**self._trained(), "buffers": copy_of(dict(self._module.named_buffers()))})

    def load(self, state: State) -> None:
        """Resume from this worker's own state."""
        self._load_trained(state.own)
        load_into(dict(self._module.named_buffers()), state.own["buffers"])


class IndependentStrategy:
    """No communication: a schedule that never synchronises, so there is no transport."""

    def __init__(self, options: Independent | None = None, transport: None = None) -> None:
        """It has no options."""

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica that never communicates again."""
        return IndependentReplica(model, optimizer, group)

"""Replicas whose worker applies the update itself, with its own optimizer."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from paceline.errors import ReplicaMisuse
from paceline.recipe import OptimizerRecipe
from paceline.record_parts import StrategyFigures
from paceline.strategies.base import Share, State
from paceline.strategies.group import Group
from paceline.strategies.shares import Shares
from paceline.strategies.state import StateDict


class LocalReplica(ABC):
    """A replica with its optimizer; the subclass defines how gradients are synchronised."""

    model: nn.Module

    def __init__(self, module: nn.Module, recipe: OptimizerRecipe, group: Group, *, mean_over_all: bool) -> None:
        self._module = module
        self._group = group
        self._shares = Shares(group, mean_over_all=mean_over_all)
        self._trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._parameters = list(self._trainable.values())
        self._optimizer = recipe.build(self._parameters)
        self._clip_norm = recipe.clip_norm
        start_equal(module, group)

    @abstractmethod
    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        """Compute gradients; the exchange may start."""

    def exchange(self, samples: int) -> None:
        """Return when this worker may update."""
        self._shares.check(samples)
        missing = [name for name, p in self._trainable.items() if p.grad is None]
        if missing:
            raise without_gradient(missing)

    def update(self, lr: float) -> None:
        """Clip by the global norm, step the optimizer, and reset the gradients."""
        self._shares.spend()
        if self._clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._clip_norm)
        for settings in self._optimizer.param_groups:
            settings["lr"] = lr
        self._optimizer.step()
        self._optimizer.zero_grad()

    def report(self) -> StrategyFigures:
        """No figures beyond those that every strategy reports."""
        return StrategyFigures()

    def close(self) -> None:
        """Release the gradients; nothing else was started."""
        self._optimizer.zero_grad()

    def _trained(self) -> StateDict:
        return {"parameters": copy_of(dict(self._module.named_parameters())), "optimizer": self._optimizer.state_dict()}

    def _load_trained(self, trained: StateDict) -> None:
        load_into(dict(self._module.named_parameters()), trained["parameters"])
        self._optimizer.load_state_dict(trained["optimizer"])

    @abstractmethod
    def state(self) -> State:
        """The state that `load` needs."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Resume from a saved state."""


def start_equal(module: nn.Module, group: Group) -> None:
    """Copy rank 0's weights and buffers to all workers; this start-up traffic does not count with the steps.

    Workers that start from one seed are equal already: then only a hash of each tensor is sent.
    """
    if group.size > 1:
        tensors = [tensor.data for tensor in (*module.parameters(), *module.buffers())]
        hashes = group.all_gather(torch.tensor([_hash(tensor) for tensor in tensors], dtype=torch.int64))
        for index, tensor in enumerate(tensors):
            if any(theirs[index] != hashes[0][index] for theirs in hashes):
                group.broadcast(tensor)
    group.tally.clear()


def _hash(tensor: Tensor) -> int:
    content = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    return int.from_bytes(hashlib.blake2b(content.data, digest_size=8).digest(), signed=True)


def copy_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy of the current values, which later steps do not change."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def load_into(tensors: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Overwrite tensors by name, in place."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(values[name])


def without_gradient(names: list[str]) -> ReplicaMisuse:
    """The error of every strategy when a trained parameter got no gradient."""
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return ReplicaMisuse(
        f"No gradient reached {shown}: freeze such parameters with requires_grad_(False) before training."
    )

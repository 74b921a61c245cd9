"""The weight of each loss in an update, and the check that the weights were correct."""

import torch

from paceline.errors import ReplicaMisuse
from paceline.strategies.base import Share
from paceline.strategies.group import Group

_REMEDY = "pass share=Share(samples, worker_samples, global_samples) to backward"


class Shares:
    """Weighs the losses of one replica.

    Buckets are sent during backward, before `exchange(samples)` gives the number of samples. So either backward
    gets the share, or all workers are assumed to have equal batches in one loss; exchange checks it.
    """

    def __init__(self, group: Group, *, mean_over_all: bool) -> None:
        self._group = group
        self._mean_over_all = mean_over_all
        self._given: int | None = None
        self._losses = 0
        self._constant: int | None = None
        self._checked = False

    def weight(self, share: Share | None) -> float:
        """The factor of a loss, so that the sum over its gradients is the intended mean."""
        self._losses += 1
        if share is None:
            return 1 / self._group.size if self._mean_over_all else 1.0
        self._given = (self._given or 0) + share.samples
        return share.of_all if self._mean_over_all else share.of_worker

    def check(self, samples: int) -> None:
        """Refuse an update whose weights do not match its samples."""
        self._checked = True
        given, self._given = self._given, None
        losses, self._losses = self._losses, 0
        if given is not None:
            if given != samples:
                raise ReplicaMisuse(
                    f"exchange({samples}) does not match the {given} samples given to backward: pass the same number."
                )
            return
        if losses > 1:
            raise ReplicaMisuse(f"{losses} losses make one update, but their weights are unknown: {_REMEDY}.")
        if self._constant is None:
            counts = [int(c) for c in self._group.all_gather(torch.tensor([samples]))] if self._mean_over_all else []
            if len(set(counts)) > 1:
                raise ReplicaMisuse(f"Workers have different numbers of samples, {counts}: {_REMEDY}.")
            self._constant = samples
        if samples != self._constant and self._mean_over_all:
            raise ReplicaMisuse(f"exchange({samples}) after steps of {self._constant} samples: {_REMEDY}.")

    def spend(self) -> None:
        """Require an exchange before every update; without one, replicas would diverge."""
        if not self._checked:
            raise ReplicaMisuse(
                "update() without exchange(): call replica.exchange(samples) between backward and update."
            )
        self._checked = False

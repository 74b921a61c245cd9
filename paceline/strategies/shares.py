"""How much each loss weighs in an update, and the check that the weights were true."""

import torch

from paceline.errors import ReplicaMisuse
from paceline.strategies.base import Share
from paceline.strategies.group import Group

_REMEDY = "pass share=Share(samples, worker_samples, global_samples) to backward"


class Shares:
    """Weighs the losses of one replica.

    Buckets leave during backward, before `exchange(samples)` tells how many samples there were. So the share
    is either given to backward, or every worker is taken to bring equally many in one loss; exchange checks it.
    """

    def __init__(self, group: Group, *, mean_over_all: bool) -> None:
        self._group = group
        self._mean_over_all = mean_over_all
        self._given: int | None = None
        self._losses = 0
        self._constant: int | None = None
        self._checked = False

    def weight(self, share: Share | None) -> float:
        """The factor of a loss, so that the sum over its gradients is the agreed mean."""
        self._losses += 1
        if share is None:
            return 1 / self._group.size if self._mean_over_all else 1.0
        self._given = (self._given or 0) + share.samples
        return share.of_all if self._mean_over_all else share.of_worker

    def check(self, samples: int) -> None:
        """Refuse an update whose weights were not those of its samples."""
        self._checked = True
        given, self._given = self._given, None
        losses, self._losses = self._losses, 0
        if given is not None:
            if given != samples:
                raise ReplicaMisuse(f"exchange({samples}) does not match the {given} samples that backward was told.")
            return
        if losses > 1:
            raise ReplicaMisuse(f"{losses} losses make one update, and nothing says how they weigh: {_REMEDY}.")
        if self._constant is None:
            counts = [int(c) for c in self._group.all_gather(torch.tensor([samples]))] if self._mean_over_all else []
            if len(set(counts)) > 1:
                raise ReplicaMisuse(f"Workers bring different numbers of samples, {counts}: {_REMEDY}.")
            self._constant = samples
        if samples != self._constant and self._mean_over_all:
            raise ReplicaMisuse(f"exchange({samples}) after steps of {self._constant} samples: {_REMEDY}.")

    def spend(self) -> None:
        """An update uses up what was exchanged; one without an exchange would set replicas apart."""
        if not self._checked:
            raise ReplicaMisuse(
                "update() without exchange(): call replica.exchange(samples) between backward and update."
            )
        self._checked = False

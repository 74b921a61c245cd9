"""A stand-in for a model of which only the size is known: a given number of parameters in a given number of tensors."""

from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from paceline.workloads.base import BatchTensors


class SizedModel(nn.Module):
    """Tensors that grow towards the output with the square of their place, roughly as in residual networks."""

    def __init__(self, parameters: int, tensors: int) -> None:
        super().__init__()
        squares = list(accumulate((place**2 for place in range(1, tensors + 1)), initial=0))
        ends = [place + (parameters - tensors) * sum_ // squares[-1] for place, sum_ in enumerate(squares)]
        self.tensors = nn.ParameterList(torch.full((end - begin,), 1e-3) for begin, end in pairwise(ends))

    def forward(self, images: Tensor) -> Tensor:
        """Add every tensor's mean to that of the images: enough for a gradient of every element."""
        signal = images.mean()
        for tensor in self.tensors:
            signal = signal + tensor.mean()
        return signal


def loss(model: nn.Module, tensors: BatchTensors) -> Tensor:
    """A number with a gradient; there is nothing to learn."""
    value: Tensor = model(tensors[0])
    return value

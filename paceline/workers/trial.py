"""One forward and backward on two samples, before training: what the loss depends on, and how the work divides."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from paceline.errors import SpecError
from paceline.strategies.group import Group
from paceline.workloads.base import Data, Workload

_KEY = "trial"


@dataclass(frozen=True)
class Trial:
    """The result of the trial."""

    unreached: Sequence[str]
    """Trained parameters that the loss does not depend on."""

    forward: float
    """Share of forward in the arithmetic of forward and backward together; meaningful only where it was counted."""

    ready: Mapping[str, float]
    """Share of backward's arithmetic that is done when a gradient is ready, by name of the parameter."""


def shared_trial(
    group: Group, module: nn.Module, workload: Workload, data: Data, device: torch.device, *, count: bool
) -> Trial:
    """Run the trial on one worker for all: the model and the first samples are the same everywhere."""
    if group.rank == 0:
        group.publish(_KEY, json.dumps(asdict(try_out(module, workload, data, device, count=count))))
    return Trial(**json.loads(group.lookup(_KEY)))


def try_out(module: nn.Module, workload: Workload, data: Data, device: torch.device, *, count: bool = False) -> Trial:
    """Run in evaluation mode, restore the random state and leave no gradients; `count` counts the arithmetic."""
    trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    counter = FlopCounterMode(display=False)
    done: dict[str, int] = {}

    def note(name: str, _: Tensor) -> None:
        done[name] = counter.get_total_flops() if count else 0

    hooks = [p.register_post_accumulate_grad_hook(partial(note, name)) for name, p in trained]
    with counter if count else nullcontext():
        loss = _loss(module, workload, data, device)
        forward = counter.get_total_flops() if count else 0
        torch.autograd.backward(loss)
    for hook in hooks:
        hook.remove()
    module.zero_grad()
    unreached = [name for name, _ in trained if name not in done]
    if not done:
        raise SpecError(f"The loss of {workload.name} depends on no parameter: there is nothing to train.")
    backward = max(done.values()) - forward
    if not (forward and backward):  # nothing to count: every gradient takes as long
        return Trial(unreached, 1 / 3, {name: place / len(done) for place, name in enumerate(done, start=1)})
    ready = {name: (arithmetic - forward) / backward for name, arithmetic in done.items()}
    return Trial(unreached, forward / (forward + backward), ready)


def _loss(module: nn.Module, workload: Workload, data: Data, device: torch.device) -> Tensor:
    rows = np.arange(min(2, len(data.train)), dtype=np.int64)
    module.eval()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        loss = workload.loss(module, tuple(t.to(device) for t in data.train.batch(rows)))
    module.train()
    if not (isinstance(loss, torch.Tensor) and loss.numel() == 1 and loss.requires_grad):
        shown = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)
        raise SpecError(
            f"The loss of {workload.name} is {shown}, which cannot be trained: return one number that depends "
            "on the parameters, the mean over the samples."
        )
    return loss


def freeze(module: nn.Module, names: Sequence[str]) -> None:
    """Freeze these parameters, so that all strategies treat them alike."""
    parameters = dict(module.named_parameters())
    for name in names:
        parameters[name].requires_grad_(False)

"""The steering network of report 001: road frames to a steering angle."""

import functools
import itertools
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from paceline.workloads.base import BatchTensors, Data, Totals, Workload
from paceline.workloads.data import driving, folder, roads
from paceline.workloads.defaults import PILOTNET
from paceline.workloads.options import PilotNetOptions

_FEATURES = 64 * 1 * 18  # what five convolutions leave of 66×200


class PilotNet(nn.Module):
    """Five convolutions and four dense layers, or five with the wide variant's 1164."""

    def __init__(self, *, wide: bool = False) -> None:
        super().__init__()
        # NVIDIA's paper names no activation; ELU is the most common choice of its re-implementations.
        self.features = nn.Sequential(
            nn.Conv2d(3, 24, 5, stride=2),
            nn.ELU(),
            nn.Conv2d(24, 36, 5, stride=2),
            nn.ELU(),
            nn.Conv2d(36, 48, 5, stride=2),
            nn.ELU(),
            nn.Conv2d(48, 64, 3),
            nn.ELU(),
            nn.Conv2d(64, 64, 3),
            nn.ELU(),
            nn.Flatten(),
        )
        sizes = [_FEATURES, *([1164] if wide else []), 100, 50, 10]
        dense: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            dense += [nn.Linear(before, after), nn.ELU()]
        self.steering = nn.Sequential(*dense, nn.Linear(sizes[-1], 1))

    def forward(self, frames: Tensor) -> Tensor:
        """One angle per frame."""
        angles: Tensor = self.steering(self.features(frames)).squeeze(1)
        return angles


def pilotnet(options: PilotNetOptions) -> Workload:
    """The workload `pilotnet`."""
    return Workload(
        name="pilotnet",
        unit="frames",
        model=functools.partial(PilotNet, wide=options.wide),
        loss=loss,
        assess=assess,
        data=functools.partial(_data, options),
        optimizer=PILOTNET.optimizer,
        batch=PILOTNET.batch,
    )


def loss(model: nn.Module, tensors: BatchTensors) -> Tensor:
    """Mean squared error of the steering angle."""
    frames, angles = tensors
    return F.mse_loss(model(frames).to(angles.dtype), angles)


def assess(model: nn.Module, tensors: BatchTensors) -> Totals:
    """The loss, and the mean absolute error in the unit of the log."""
    frames, angles = tensors
    errors = model(frames).to(angles.dtype) - angles
    return {
        "loss": (errors.square().sum(), len(angles)),
        "angle_error": (errors.abs().sum(), len(angles)),
    }


def _data(options: PilotNetOptions) -> Data:
    place = None if options.data == "generated" else folder.find(driving.FOLDERS)
    if place is not None:
        return _real(place, options.samples)
    if options.data == "real":
        raise folder.missing("driving log", driving.FOLDERS)
    return _generated(options.samples)


def _real(path: Path, samples: int | None) -> Data:
    train, validation = driving.load(path, samples)
    return Data(train=train, validation=validation, source=f"{path} ({len(train):,} + {len(validation):,} frames)")


def _generated(samples: int | None) -> Data:
    train = roads.Roads(folder.limit(roads.TRAIN, samples, "the set of generated roads"), seed=0)
    validation = roads.Roads(roads.VALIDATION, seed=1)
    source = f"generated roads ({len(train):,} + {len(validation):,})"
    return Data(train=train, validation=validation, source=source, generated=True)

"""VGG16 of report 003: a plain classifier, most of whose parameters are in three dense layers."""

import functools

from torch import Tensor, nn

from paceline.workloads.base import Workload
from paceline.workloads.defaults import VGG
from paceline.workloads.options import ImageNetOptions
from paceline.workloads.resnet import classifier

# Multiples of the width for each 3×3 convolution; a 2×2 maximum follows each group.
_GROUPS = ((1, 1), (2, 2), (4, 4, 4), (8, 8, 8), (8, 8, 8))
_DENSE = 64  # 4096 at the published width of 64
_POOLED = 7  # side of the maps that reach the dense layers, whatever the image's size


class Vgg16(nn.Module):
    """Thirteen convolutions and three dense layers."""

    def __init__(self, *, classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for group in _GROUPS:
            for multiple in group:
                layers += [nn.Conv2d(channels, multiple * width, 3, padding=1), nn.ReLU()]
                channels = multiple * width
            layers.append(nn.MaxPool2d(2))
        dense = _DENSE * width
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(_POOLED), nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(channels * _POOLED**2, dense),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(dense, dense),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(dense, classes),
        )
        self._initialise()

    def _initialise(self) -> None:
        # He's initialisation: without normalisation, every layer has to keep the variance of its input.
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        # The logits start near zero, so that training does not begin by unlearning confident guesses.
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        nn.init.normal_(last.weight, std=0.1 / last.in_features**0.5)

    def forward(self, images: Tensor) -> Tensor:
        """One logit per class."""
        logits: Tensor = self.head(self.features(images))
        return logits


def vgg16(options: ImageNetOptions) -> Workload:
    """The workload `vgg16`."""
    model = functools.partial(Vgg16, classes=options.classes, width=options.width)
    return classifier("vgg16", model, VGG, options)

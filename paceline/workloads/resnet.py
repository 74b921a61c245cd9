"""The residual classifiers of reports 003 and 004, in torchvision's form (v1.5: the stride is on the 3×3)."""

import functools
import math
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from paceline.workloads import sized
from paceline.workloads.base import BatchTensors, Data, Totals, Workload
from paceline.workloads.data.patterns import Patterns
from paceline.workloads.defaults import RESNET, TrainingDefaults
from paceline.workloads.options import ImageNetOptions


def _conv(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without bias, which the normalisation after it would cancel."""
    conv = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return [conv, nn.BatchNorm2d(after)]


class Block(nn.Module):
    """ReLU(residual(x) + shortcut(x)); the shortcut is a 1×1 convolution where the shape changes."""

    def __init__(self, residual: Sequence[nn.Module], before: int, after: int, stride: int) -> None:
        super().__init__()
        self.channels = after
        self.residual = nn.Sequential(*residual)
        same = stride == 1 and before == after
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv(before, after, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        return F.relu(self.residual(x) + self.shortcut(x))


def basic(before: int, width: int, stride: int) -> Block:
    """Two 3×3 convolutions."""
    residual = [*_conv(before, width, 3, stride), nn.ReLU(), *_conv(width, width, 3)]
    return Block(residual, before, width, stride)


def bottleneck(before: int, width: int, stride: int) -> Block:
    """A 3×3 convolution between a narrowing and a fourfold widening 1×1."""
    after = 4 * width
    residual = [
        *_conv(before, width, 1),
        nn.ReLU(),
        *_conv(width, width, 3, stride),
        nn.ReLU(),
        *_conv(width, after, 1),
    ]
    return Block(residual, before, after, stride)


class ResNet(nn.Module):
    """A stem, four stages of blocks, each half as large and twice as wide as the one before, and a dense layer."""

    def __init__(
        self, block: Callable[[int, int, int], Block], depths: Sequence[int], *, classes: int, width: int
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))
        stages, channels = [], width
        for number, depth in enumerate(depths):
            stage = nn.Sequential()
            for position in range(depth):
                stride = 2 if number > 0 and position == 0 else 1
                added = block(channels, width * 2**number, stride)
                stage.append(added)
                channels = added.channels
            stages.append(stage)
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))

    def forward(self, images: Tensor) -> Tensor:
        """One logit per class."""
        logits: Tensor = self.head(self.stages(self.stem(images)))
        return logits


def resnet18(options: ImageNetOptions) -> Workload:
    """The workload `resnet18`."""
    return _resnet("resnet18", basic, (2, 2, 2, 2), options)


def resnet50(options: ImageNetOptions) -> Workload:
    """The workload `resnet50`."""
    return _resnet("resnet50", bottleneck, (3, 4, 6, 3), options)


def resnet101(options: ImageNetOptions) -> Workload:
    """The workload `resnet101`."""
    return _resnet("resnet101", bottleneck, (3, 4, 23, 3), options)


def resnet152(options: ImageNetOptions) -> Workload:
    """The workload `resnet152`."""
    return _resnet("resnet152", bottleneck, (3, 8, 36, 3), options)


def _resnet(
    name: str, block: Callable[[int, int, int], Block], depths: Sequence[int], options: ImageNetOptions
) -> Workload:
    model = functools.partial(ResNet, block, depths, classes=options.classes, width=options.width)
    return classifier(name, model, RESNET, options)


def classifier(
    name: str, model: Callable[[], nn.Module], defaults: TrainingDefaults, options: ImageNetOptions
) -> Workload:
    """A workload that classifies generated patterns with any model from images to logits, or a stand-in for one."""
    own = True
    if options.parameters is not None and options.tensors is not None:
        own, model = False, functools.partial(sized.SizedModel, options.parameters, options.tensors)
    return Workload(
        name=name,
        unit="images",
        model=model,
        loss=loss if own else sized.loss,
        assess=assess if own else None,
        data=functools.partial(_data, options),
        optimizer=defaults.optimizer,
        batch=defaults.batch,
    )


def loss(model: nn.Module, tensors: BatchTensors) -> Tensor:
    """Mean cross-entropy."""
    images, labels = tensors
    return F.cross_entropy(model(images).to(images.dtype), labels)


def assess(model: nn.Module, tensors: BatchTensors) -> Totals:
    """The loss, and the share of images whose likeliest class is the right one."""
    images, labels = tensors
    logits = model(images).to(images.dtype)
    correct = (logits.argmax(1) == labels).to(images.dtype)
    return {
        "loss": (F.cross_entropy(logits, labels, reduction="sum"), len(labels)),
        "accuracy": (correct.sum(), len(labels)),
    }


def _data(options: ImageNetOptions) -> Data:
    train = Patterns(options.samples, options.image, options.classes, seed=0)
    validation = Patterns(math.ceil(options.samples / 10), options.image, options.classes, seed=1)
    size = f"{options.image}×{options.image}, {options.classes:,} classes"
    source = f"generated patterns, {size} ({len(train):,} + {len(validation):,})"
    return Data(train=train, validation=validation, source=source, generated=True)

"""The variational autoencoder of report 000: 28×28 images, encoded to two numbers and decoded."""

import functools
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paceline.workloads.base import BatchTensors, Data, Totals, Workload
from paceline.workloads.data import digits, folder, idx
from paceline.workloads.defaults import VAE
from paceline.workloads.options import VaeOptions

PIXELS = digits.SIDE * digits.SIDE
_GRID = digits.SIDE // 2  # side of the feature maps after the only stride


class Vae(nn.Module):
    """Encoder, a latent sample, decoder; returns pixel logits, mean and log-variance."""

    def __init__(self, channels: int = 64, hidden: int = 128, latent: int = 2) -> None:
        super().__init__()
        features = channels * _GRID * _GRID
        self.encoder = nn.Sequential(
            nn.ZeroPad2d((0, 1, 0, 1)),  # Keras "same" for an even kernel: the odd pixel goes right and below
            nn.Conv2d(1, 1, 2),
            nn.ReLU(),
            nn.Conv2d(1, channels, 2, stride=2),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(features, hidden),
            nn.ReLU(),
        )
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.ReLU(),
            nn.Linear(hidden, features),
            nn.ReLU(),
            nn.Unflatten(1, (channels, _GRID, _GRID)),
            nn.ConvTranspose2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(channels, channels, 3, stride=2),  # 14 → 29
            nn.ReLU(),
            nn.Conv2d(channels, 1, 2),  # 29 → 28; its sigmoid is inside the loss, where it is stable
        )
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        # All the image passes through the first layer's single 2×2 filter and its ReLU. Drawn mostly negative,
        # it is dead for ever and only the mean image is learned (val_loss 206). Pixels are never negative, so
        # absolute weights start it alive whatever the seed; their Glorot magnitudes are kept.
        first = self.encoder[1]
        assert isinstance(first, nn.Conv2d)
        with torch.no_grad():
            first.weight.abs_()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the pixels, mean and log-variance of the latent sample they were decoded from."""
        encoded = self.encoder(images)
        mean, log_variance = self.mean(encoded), self.log_variance(encoded)
        # exp(log σ²)·noise, not exp(½ log σ²)·noise: as the original did, and its published losses need it.
        sample = mean + log_variance.exp() * torch.randn_like(mean)
        return self.decoder(sample), mean, log_variance


def vae(options: VaeOptions) -> Workload:
    """The workload `vae`."""
    return Workload(
        name="vae",
        unit="images",
        model=functools.partial(Vae, options.channels, options.hidden, options.latent),
        loss=loss,
        assess=assess,
        data=functools.partial(_data, options),
        optimizer=VAE.optimizer,
        batch=VAE.batch,
    )


def loss(model: nn.Module, tensors: BatchTensors) -> Tensor:
    """Reconstruction + KL, averaged over the samples."""
    reconstruction, divergence = _terms(model, tensors)
    return reconstruction + divergence


def assess(model: nn.Module, tensors: BatchTensors) -> Totals:
    """The loss and its two terms; the latent noise stays on, as in the original validation."""
    samples = len(tensors[0])
    reconstruction, divergence = _terms(model, tensors)
    return {
        "loss": ((reconstruction + divergence) * samples, samples),
        "reconstruction": (reconstruction * samples, samples),
        "kl": (divergence * samples, samples),
    }


def _terms(model: nn.Module, tensors: BatchTensors) -> tuple[Tensor, Tensor]:
    images = tensors[0]
    logits, mean, log_variance = (t.to(images.dtype) for t in model(images))  # out of reduced precision, if any
    reconstruction = PIXELS * F.binary_cross_entropy_with_logits(logits, images)
    # KL = −½ · mean over latent dimensions (not their sum) of 1 + log σ² − μ² − σ².
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
    return reconstruction, divergence


def _data(options: VaeOptions) -> Data:
    place = None
    if options.data in ("auto", "mnist"):
        place = folder.find(idx.MNIST)
    if place is None and options.data in ("auto", "fashion"):
        place = idx.find_fashion_mnist()
    if place is not None:
        return _real(place, options)
    if options.data == "mnist":
        raise folder.missing("MNIST", idx.MNIST, remedies=["use data=fashion (Debian: dataset-fashion-mnist)"])
    if options.data == "fashion":
        raise folder.missing(
            "Fashion-MNIST",
            idx.FASHION_MNIST,
            elsewhere=[idx.DEBIAN_FASHION_MNIST],
            remedies=["install Debian's package dataset-fashion-mnist"],
        )
    return _generated(options)


def _real(path: Path, options: VaeOptions) -> Data:
    train = idx.load(path, "train", digits.SIDE, options.samples)
    validation = idx.load(path, "t10k", digits.SIDE, options.validation, option="validation")
    return Data(train=train, validation=validation, source=f"{path} ({len(train):,} + {len(validation):,} images)")


def _generated(options: VaeOptions) -> Data:
    source = "the set of generated digits"
    count = folder.limit(digits.TRAIN, options.samples, source)
    train = idx.ByteImages(*digits.generate(digits.TRAIN, seed=0, first=count))
    count = folder.limit(digits.VALIDATION, options.validation, source, option="validation")
    validation = idx.ByteImages(*digits.generate(digits.VALIDATION, seed=1, first=count))
    source = f"generated digits ({len(train):,} + {len(validation):,})"
    return Data(train=train, validation=validation, source=source, generated=True)

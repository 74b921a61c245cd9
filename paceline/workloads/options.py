"""The options of every workload of the catalogue, checked when they are created; needs no torch."""

from dataclasses import dataclass
from typing import Literal

from paceline.grammar import require


def _positive(workload: str, **counts: int | None) -> None:
    for name, count in counts.items():
        require(count is None or count >= 1, f"{workload}: {name}={count} is not valid: it must be at least 1.")


@dataclass(frozen=True, kw_only=True)
class VaeOptions:
    """The variational autoencoder of report 000."""

    data: Literal["auto", "mnist", "fashion", "generated"] = "auto"
    """auto: MNIST, else Fashion-MNIST, else generated digits."""

    samples: int | None = None
    """Use only the first N training images."""

    validation: int | None = None
    """Use only the first N validation images."""

    channels: int = 64
    hidden: int = 128
    latent: int = 2

    def __post_init__(self) -> None:
        _positive("vae", samples=self.samples, validation=self.validation, channels=self.channels)
        _positive("vae", hidden=self.hidden, latent=self.latent)


@dataclass(frozen=True, kw_only=True)
class PilotNetOptions:
    """The steering network of report 001."""

    data: Literal["auto", "real", "generated"] = "auto"
    samples: int | None = None
    """Use only the first N training frames."""

    wide: bool = False
    """on: the variant with a dense layer of 1164 units before the one of 100."""

    def __post_init__(self) -> None:
        _positive("pilotnet", samples=self.samples)


@dataclass(frozen=True, kw_only=True)
class ImageNetOptions:
    """A classifier of images: the ResNets of reports 003 and 004, and VGG16."""

    image: int = 224
    """Height and width in pixels."""

    classes: int = 1000
    width: int = 64
    """Channels of the first stage; the others keep their proportion to it."""

    samples: int = 12_800
    """How many training images are generated."""

    parameters: int | None = None
    """Parameters of a stand-in for a model of which only the size is known; needs tensors."""

    tensors: int | None = None
    """Tensors of the stand-in; needs parameters."""

    def __post_init__(self) -> None:
        require(
            (self.parameters is None) == (self.tensors is None),
            f"parameters={self.parameters} and tensors={self.tensors} go together: give both, or neither.",
        )
        _positive("image classifier", tensors=self.tensors)
        require(
            self.parameters is None or self.parameters >= (self.tensors or 1),
            f"parameters={self.parameters} is not valid: {self.tensors} tensors need at least one parameter each.",
        )
        _positive("image classifier", classes=self.classes, width=self.width, samples=self.samples)
        require(self.image >= 32, f"image={self.image} is not valid: five halvings need at least 32 pixels.")


@dataclass(frozen=True, kw_only=True)
class NmtOptions:
    """The translation network of report 002."""

    cell: Literal["stepwise", "fused"] = "stepwise"
    """stepwise runs the LSTM cell step by step, as dynamic_rnn did; fused uses the fused kernel."""

    direction: Literal["uni", "bi"] = "bi"
    units: int = 512
    """Width of embeddings and of every LSTM layer."""

    vocabulary: int = 50_000
    length: int = 100
    """Words per sentence; shorter ones are padded and masked, longer ones are cut."""

    data: Literal["auto", "real", "generated"] = "auto"
    samples: int | None = None
    """Use only the first N training pairs."""

    def __post_init__(self) -> None:
        _positive("nmt", units=self.units, length=self.length, samples=self.samples)
        require(self.vocabulary >= 8, f"nmt: vocabulary={self.vocabulary} is not valid: it must be at least 8.")


@dataclass(frozen=True, kw_only=True)
class BertOptions:
    """BERT as report 004 trained it: masked words and next sentence."""

    tied: bool = True
    """Whether the output projection is the word embedding."""

    layers: int = 12
    units: int = 768
    heads: int = 12
    hidden: int = 3072
    vocabulary: int = 30_522
    length: int = 128
    dropout: float = 0.1
    samples: int = 12_800
    """How many training sequences are generated."""

    def __post_init__(self) -> None:
        _positive("bert-base", layers=self.layers, units=self.units, heads=self.heads, hidden=self.hidden)
        _positive("bert-base", samples=self.samples)
        require(
            self.units % self.heads == 0,
            f"bert-base: units={self.units} is not valid: it must be a multiple of heads={self.heads}.",
        )
        require(self.vocabulary >= 16, f"bert-base: vocabulary={self.vocabulary} is not valid: it must be at least 16.")
        require(8 <= self.length <= 512, f"bert-base: length={self.length} is not valid: it must be from 8 to 512.")
        require(
            0 <= self.dropout < 1, f"bert-base: dropout={self.dropout} is not valid: it must be at least 0 and below 1."
        )

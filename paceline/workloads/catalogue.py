"""The workloads by name; models are imported only when one is built."""

import functools
import importlib
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import grammar
from paceline.errors import PacelineError, SpecError
from paceline.workloads.defaults import BERT, NMT, PILOTNET, RESNET, VAE, VGG, TrainingDefaults
from paceline.workloads.options import BertOptions, ImageNetOptions, NmtOptions, PilotNetOptions, VaeOptions

if TYPE_CHECKING:
    from paceline.workloads.base import Workload


@dataclass(frozen=True)
class WorkloadEntry:
    """The builder of a workload, its options, and its summary."""

    builder: str
    options: type[Any]
    parameters: int
    """Number of parameters with default options."""

    unit: str
    defaults: TrainingDefaults
    summary: str


WORKLOADS: Mapping[str, WorkloadEntry] = {
    "vae": WorkloadEntry(
        "vae:vae", VaeOptions, 3_410_058, "images", VAE, "convolutional variational autoencoder on digits"
    ),
    "pilotnet": WorkloadEntry(
        "pilotnet:pilotnet", PilotNetOptions, 252_219, "frames", PILOTNET, "steering angle from road frames"
    ),
    "resnet18": WorkloadEntry(
        "resnet:resnet18", ImageNetOptions, 11_689_512, "images", RESNET, "residual classifier, 18 layers"
    ),
    "resnet50": WorkloadEntry(
        "resnet:resnet50", ImageNetOptions, 25_557_032, "images", RESNET, "residual classifier, 50 layers"
    ),
    "resnet101": WorkloadEntry(
        "resnet:resnet101", ImageNetOptions, 44_549_160, "images", RESNET, "residual classifier, 101 layers"
    ),
    "resnet152": WorkloadEntry(
        "resnet:resnet152", ImageNetOptions, 60_192_808, "images", RESNET, "residual classifier, 152 layers"
    ),
    "vgg16": WorkloadEntry(
        "vgg:vgg16", ImageNetOptions, 138_357_544, "images", VGG, "plain classifier with large dense layers"
    ),
    "nmt": WorkloadEntry(
        "nmt:nmt", NmtOptions, 93_593_600, "words", NMT, "recurrent encoder-decoder translating sentences"
    ),
    "bert-base": WorkloadEntry(
        "bert:bert_base", BertOptions, 110_106_428, "words", BERT, "BERT encoder, masked words and next sentence"
    ),
}


def check(text: str) -> str:
    """The workload as records write it; refused if it is not valid. Needs no torch."""
    part = grammar.parse(text, "workload")
    if ":" in part.name:  # the user's own; its options are checked when its function is called
        return str(part)
    grammar.choose(part.name, WORKLOADS, "workload")
    return grammar.write(part.name, grammar.bind(part, WORKLOADS[part.name].options, "workload"))


@functools.cache  # a study plans many runs of one workload
def defaults_of(text: str) -> TrainingDefaults:
    """The workload's training defaults; only a user's own workload is built to find them."""
    part = grammar.parse(text, "workload")
    if ":" not in part.name:
        return WORKLOADS[grammar.choose(part.name, WORKLOADS, "workload")].defaults
    own = _users_own(part)
    return TrainingDefaults(batch=own.batch, optimizer=own.optimizer)


def build(text: str) -> "Workload":
    """The workload that `text` names."""
    part = grammar.parse(text, "workload")
    if ":" in part.name:
        return _users_own(part)
    entry = WORKLOADS[grammar.choose(part.name, WORKLOADS, "workload")]
    module, _, function = entry.builder.partition(":")
    builder = getattr(importlib.import_module(f"paceline.workloads.{module}"), function)
    workload: Workload = builder(grammar.bind(part, entry.options, "workload"))
    return workload


def _users_own(part: grammar.Part) -> "Workload":
    from paceline.workloads.base import Workload

    module, _, name = part.name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise SpecError(
            f"There is no module {error.name!r} for workload {part.name!r}: run from its folder, or install it."
        ) from error
    except AttributeError:
        raise SpecError(f"The module {module!r} has no function {name!r}.") from None
    if not callable(function):
        raise SpecError(f"{part.name} is not a function: name one that returns a paceline.Workload.")
    arguments = grammar.bind_call(part, function)
    try:
        workload = function(**arguments)
    except PacelineError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise SpecError(
            f"{part.name} raised {type(error).__name__}: {error} ({where.filename}, line {where.lineno}). "
            "Nothing was run: fix the function, or its options."
        ) from error
    if not isinstance(workload, Workload):
        raise SpecError(f"{part.name} returned {type(workload).__name__}, not a paceline.Workload.")
    return workload

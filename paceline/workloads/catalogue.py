"""The workloads by name; models are imported only when one is built."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline import grammar
from paceline.errors import SpecError
from paceline.workloads.options import BertOptions, ImageNetOptions, NmtOptions, PilotNetOptions, VaeOptions

if TYPE_CHECKING:
    from paceline.workloads.base import Workload


@dataclass(frozen=True)
class Entry:
    """Where a workload is built, with which options, and what to say about it."""

    builder: str
    options: type[Any]
    parameters: int
    """At default options."""

    unit: str
    summary: str


WORKLOADS: Mapping[str, Entry] = {
    "vae": Entry("vae:vae", VaeOptions, 3_410_058, "images", "convolutional variational autoencoder on digits"),
    "pilotnet": Entry("pilotnet:pilotnet", PilotNetOptions, 252_219, "frames", "steering angle from road frames"),
    "resnet18": Entry("resnet:resnet18", ImageNetOptions, 11_689_512, "images", "residual classifier, 18 layers"),
    "resnet50": Entry("resnet:resnet50", ImageNetOptions, 25_557_032, "images", "residual classifier, 50 layers"),
    "resnet101": Entry("resnet:resnet101", ImageNetOptions, 44_549_160, "images", "residual classifier, 101 layers"),
    "resnet152": Entry("resnet:resnet152", ImageNetOptions, 60_192_808, "images", "residual classifier, 152 layers"),
    "vgg16": Entry("vgg:vgg16", ImageNetOptions, 138_357_544, "images", "plain classifier with large dense layers"),
    "nmt": Entry("nmt:nmt", NmtOptions, 93_593_600, "words", "recurrent encoder-decoder translating sentences"),
    "bert-base": Entry("bert:bert_base", BertOptions, 110_106_428, "words", "masked words and next sentence"),
}


def check(text: str) -> str:
    """The workload as it will be written in records; refused when it cannot exist. Needs no torch."""
    part = grammar.parse(text, "workload")
    if ":" in part.name:  # the user's own; its options are checked when its function is called
        return str(part)
    grammar.choose(part.name, WORKLOADS, "workload")
    return grammar.write(part.name, grammar.bind(part, WORKLOADS[part.name].options, "workload"))


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
    workload = function(**grammar.bind_call(part, function))
    if not isinstance(workload, Workload):
        raise SpecError(f"{part.name} returned {type(workload).__name__}, not a paceline.Workload.")
    return workload

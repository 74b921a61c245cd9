"""How an optimizer is built for any set of parameters: a worker's, a server's or a slice owner's."""

import functools
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paceline.errors import SpecError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class OptimizerRecipe:
    """An optimizer class by its address, its options and the clipping that belongs to it.

    Plain data, so that it can be sent to a server process without pickling.
    """

    factory: str
    """`package.module:Class`, importable wherever the recipe is used."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class, `lr` among them."""

    clip_norm: float | None = None
    """Gradients are scaled down to this global norm before an update; None: no clipping."""

    @classmethod
    def of(cls, build: "Callable[..., torch.optim.Optimizer] | OptimizerRecipe") -> "OptimizerRecipe":
        """From an optimizer class or `functools.partial(Adam, lr=1e-3)`, as scripts have them."""
        if isinstance(build, OptimizerRecipe):
            return build
        options: dict[str, Any] = {}
        target: Any = build
        while isinstance(target, functools.partial):
            if target.args:
                raise SpecError("An optimizer recipe takes keyword arguments only, as in partial(Adam, lr=1e-3).")
            options = {**target.keywords, **options}
            target = target.func
        name = getattr(target, "__qualname__", "<unnamed>")
        module = getattr(target, "__module__", "")
        if "<" in name or not module:
            raise SpecError(f"{build!r} cannot be rebuilt elsewhere: pass a class or partial(Class, lr=…).")
        return cls(factory=f"{module}:{name}", options=options)

    @property
    def lr(self) -> float:
        """The learning rate it starts with."""
        if "lr" not in self.options:
            raise SpecError(f"The optimizer {self.factory} has no lr: write partial(Class, lr=…).")
        return float(self.options["lr"])

    def build(self, parameters: "Iterable[torch.Tensor]") -> "torch.optim.Optimizer":
        """The optimizer for these parameters."""
        module, _, name = self.factory.partition(":")
        factory: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        optimizer: torch.optim.Optimizer = factory(parameters, **self.options)
        return optimizer

    def to_json(self) -> str:
        """As JSON for a server process; raises if the optimizer could not be rebuilt there."""
        if self.factory.startswith("__main__:"):
            raise SpecError(f"{self.factory} cannot be rebuilt in a server: define the class in a module of its own.")
        try:
            return json.dumps({"factory": self.factory, "options": dict(self.options), "clip_norm": self.clip_norm})
        except TypeError as error:
            raise SpecError(
                f"The options of {self.factory} cannot be sent to a server: {error}. Use plain numbers and strings."
            ) from None

    @classmethod
    def from_json(cls, text: str) -> "OptimizerRecipe":
        """The inverse of `to_json`."""
        return cls(**json.loads(text))

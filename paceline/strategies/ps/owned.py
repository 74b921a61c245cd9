"""One server's range of the parameters, and the optimizer that updates it."""

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from paceline.errors import SpecError
from paceline.recipe import OptimizerRecipe
from paceline.strategies.codec import CodecFactory, OneRoundCodec
from paceline.strategies.ps.launch import ServerConfig
from paceline.strategies.ps.wire import Message, dtype_called
from paceline.strategies.state import StateDict

_PLAIN = (bool, int, float, str, list, tuple, type(None))

Values: TypeAlias = Mapping[str, Tensor]
"""One tensor per dtype: parameters or gradients of a range."""


class Refusal(Exception):
    """A request that a server cannot fulfil; the worker gets the reason, and the server continues."""


class OwnedRange:
    """This server's range of every flat buffer, updated by its own optimizer."""

    def __init__(self, config: ServerConfig) -> None:
        self._device = torch.device(config.device)  # cuda: not run on a GPU
        self._parameters = {
            name: torch.nn.Parameter(torch.zeros(size, dtype=dtype_called(name), device=self._device))
            for name, size in config.sizes.items()
        }
        for parameter in self._parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        self._optimizer = config.recipe.build(self._parameters.values())
        self._needs_norm = config.recipe.clip_norm is not None
        self._codec = None if config.codec is None else _codec_of(config.codec)
        self.version = 0
        self.updating_seconds = 0.0
        """How long the last update took."""

    def check(self, tensors: Values) -> None:
        """Refuse tensors that do not belong to this range."""
        expected = {name: (p.dtype, p.shape) for name, p in self._parameters.items()}
        if {name: (t.dtype, t.shape) for name, t in tensors.items()} != expected:
            raise Refusal("the tensors are not those of this server's range")

    def decoded(self, pushed: Values) -> Values:
        """A worker's gradients of this range, decoded and checked."""
        if self._codec is not None:
            try:
                pushed = {name: self._decode(pushed[name], parameter) for name, parameter in self._parameters.items()}
            except (KeyError, RuntimeError, ValueError, IndexError, TypeError) as error:
                raise Refusal(f"the pushed gradients cannot be decoded: {error}") from error
        self.check(pushed)
        return pushed

    def _decode(self, coded: Tensor, parameter: Tensor) -> Tensor:
        assert self._codec is not None
        return self._codec.decode(coded, parameter.numel()).to(parameter.dtype)

    def add_up(self, parts: Iterable[Values]) -> float | None:
        """Store the sum of `parts`, added in the given order; return its squared norm if the recipe clips."""
        for position, part in enumerate(parts):
            for name, parameter in self._parameters.items():
                assert parameter.grad is not None
                value = part[name].to(self._device)
                parameter.grad.add_(value) if position else parameter.grad.copy_(value)
        if not self._needs_norm:
            return None
        norms = (torch.linalg.vector_norm(p.grad, dtype=_wide(p.dtype)) for p in self._parameters.values())
        return math.fsum(float(norm) ** 2 for norm in norms)

    def update(self, lr: float, scale: float) -> None:
        """Make one optimizer step with the stored gradients, scaled."""
        begun = time.perf_counter()
        if scale != 1.0:
            for parameter in self._parameters.values():
                assert parameter.grad is not None
                parameter.grad.mul_(scale)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        self.version += 1
        self.updating_seconds = time.perf_counter() - begun

    def values(self) -> dict[str, Tensor]:
        """The parameters themselves, not a copy."""
        return {name: p.detach() for name, p in self._parameters.items()}

    def state(self) -> Message:
        """The optimizer's state: tensors by `dtype/key`, plain values, and the settings of its parameter group."""
        tensors: dict[str, Tensor] = {}
        plain: StateDict = {}
        for name, parameter in self._parameters.items():
            for key, value in self._optimizer.state[parameter].items():
                if isinstance(value, Tensor):
                    tensors[f"{name}/{key}"] = value.clone()
                else:
                    plain[f"{name}/{key}"] = value
        settings = self._optimizer.param_groups[0]
        group = {key: value for key, value in settings.items() if key != "params" and isinstance(value, _PLAIN)}
        return Message("state", {"plain": plain, "group": group, "version": self.version}, tensors)

    @torch.no_grad()
    def load(self, message: Message) -> None:
        """Load parameters by dtype and, if given, the optimizer state from `state`."""
        fields, values = message.fields, {name: t for name, t in message.tensors.items() if "/" not in name}
        self.check(values)
        parts = (fields.get("group", {}), fields.get("plain", {}))
        if type(fields.get("version")) is not int or not all(isinstance(part, dict) for part in parts):
            raise Refusal("'load' has no version, or a damaged optimizer state")
        self.version = fields["version"]
        for name, parameter in self._parameters.items():
            parameter.copy_(values[name])
        if "group" not in fields:
            return
        self._optimizer.param_groups[0].update(fields["group"])
        entries = {k: t.clone() for k, t in message.tensors.items() if "/" in k} | fields.get("plain", {})
        for name, parameter in self._parameters.items():
            # not load_state_dict: it casts every tensor to the parameter's dtype, which is not bit-identical
            self._optimizer.state[parameter] = {
                path.partition("/")[2]: self._placed(value, parameter)
                for path, value in entries.items()
                if path.partition("/")[0] == name
            }

    def _placed(self, value: Any, parameter: Tensor) -> Any:
        elementwise = isinstance(value, Tensor) and value.shape == parameter.shape
        return value.to(self._device) if elementwise else value


def _codec_of(text: str) -> OneRoundCodec:
    codec = CodecFactory.of_text(text)()
    assert isinstance(codec, OneRoundCodec), "others were refused when the chain was resolved"
    return codec


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def require_elementwise(recipe: OptimizerRecipe) -> None:
    """Refuse an optimizer that would train differently on ranges than on whole tensors, by trying it on both."""
    refusal = f"ps cannot use {recipe.factory}: a server updates ranges of elements that cross tensor boundaries"
    remedy = "Use an elementwise optimizer such as SGD or Adam, or strategy allreduce."
    start = torch.logspace(-3, 3, 8, dtype=torch.float64)  # halves of different norms
    try:
        whole, halves = (
            _tried(recipe, [start.clone()]),
            _tried(recipe, [half.clone() for half in torch.split(start, 4)]),
        )
    except Exception as error:  # any error of the optimizer explains it
        raise SpecError(f"{refusal}, and updating one failed: {error} {remedy}") from error
    if not torch.allclose(whole, halves, rtol=1e-9, atol=0):
        raise SpecError(f"{refusal}, and its update of a tensor changed when the tensor was split. {remedy}")


def _tried(recipe: OptimizerRecipe, tensors: list[Tensor]) -> Tensor:
    parameters = [torch.nn.Parameter(tensor) for tensor in tensors]
    optimizer = recipe.build(parameters)
    for step in range(1, 4):
        for parameter in parameters:
            parameter.grad = parameter.detach().sin() / step
        optimizer.step()
    return torch.cat([parameter.detach() for parameter in parameters])

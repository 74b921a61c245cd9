"""All trained parameters of a model in one flat buffer per dtype, and their gradients in another."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from paceline.errors import SpecError
from paceline.strategies.ps.wire import dtype_name


class FlatModel:
    """A model whose trained parameters and gradients are views of flat buffers, by name of dtype.

    A range of a flat buffer is contiguous memory: it is sent as one frame without copying, and received with one
    copy. On a GPU `host_…` are staging buffers (not run on a GPU); on the CPU they are the flat buffers themselves.
    """

    def __init__(self, model: nn.Module) -> None:
        trained = [p for p in model.parameters() if p.requires_grad]
        devices = {p.device for p in trained}
        if len(devices) != 1:
            where = ", ".join(sorted(map(str, devices))) or "nothing to train"
            raise SpecError(f"The trained parameters are on {where}: they must be on one device.")
        self.device = devices.pop()
        self.parameters: dict[str, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}
        self._homes: list[tuple[nn.Parameter, Tensor]] = []
        for dtype in dict.fromkeys(p.dtype for p in trained):
            self._lay([p for p in trained if p.dtype == dtype], dtype_name(dtype))
        self.host_parameters = self._staging(self.parameters)
        self.host_gradients = self._staging(self.gradients)

    def _lay(self, parameters: list[nn.Parameter], dtype: str) -> None:
        values = torch.cat([p.detach().reshape(-1) for p in parameters])
        gradients = torch.zeros_like(values)
        sizes = [p.numel() for p in parameters]
        for p, value, gradient in zip(
            parameters, torch.split(values, sizes), torch.split(gradients, sizes), strict=True
        ):
            p.data = value.view(p.shape)
            home = gradient.view(p.shape)
            p.grad = home
            self._homes.append((p, home))
        self.parameters[dtype] = values
        self.gradients[dtype] = gradients

    def _staging(self, buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if self.device.type == "cpu":
            return dict(buffers)
        return {dtype: torch.empty_like(b, device="cpu", pin_memory=True) for dtype, b in buffers.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """Elements per dtype."""
        return {dtype: buffer.numel() for dtype, buffer in self.parameters.items()}

    def gradients_to_host(self) -> None:
        """Copy all gradients to the host buffers."""
        for p, home in self._homes:
            # zero_grad(set_to_none) and sparse gradients replace the view by a separate tensor
            if p.grad is not home:
                home.zero_() if p.grad is None else home.copy_(p.grad)
                p.grad = home
        self._copy(self.gradients, self.host_gradients)

    def parameters_to_host(self) -> None:
        """Copy all parameters to the host buffers."""
        self._copy(self.parameters, self.host_parameters)

    def parameters_from_host(self) -> None:
        """Copy the parameters from the host buffers."""
        self._copy(self.host_parameters, self.parameters)

    def _copy(self, source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
        if self.device.type != "cpu":
            for dtype, buffer in source.items():
                target[dtype].copy_(buffer)

    def clear_gradients(self) -> None:
        """Zero the gradients for the next update."""
        for buffer in self.gradients.values():
            buffer.zero_()

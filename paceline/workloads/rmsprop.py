"""RMSProp as in TensorFlow: its squared average starts at 1, and epsilon is inside the root."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class TensorFlowRMSprop(Optimizer):
    """s ← αs + (1 − α)g², p ← p − lr · g / √(s + ε), with s = 1 at the start.

    PyTorch's starts at s = 0, so that its first steps are 1/√(1 − α) ≈ 3.2 × lr in every parameter, whatever the
    gradient; report 000's figures come from TensorFlow's slower start.
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, alpha: float = 0.9, eps: float = 1e-10) -> None:
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        assert closure is None, "this optimizer takes no closure"
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters]
            averages = [self._average(p) for p in parameters]
            torch._foreach_mul_(averages, group["alpha"])
            torch._foreach_addcmul_(averages, gradients, gradients, 1 - group["alpha"])
            roots = torch._foreach_add(averages, group["eps"])
            torch._foreach_sqrt_(roots)
            torch._foreach_addcdiv_(parameters, gradients, roots, -group["lr"])
        return None

    def _average(self, parameter: Tensor) -> Tensor:
        state: dict[str, Any] = self.state[parameter]
        if "square_avg" not in state:
            state["square_avg"] = torch.ones_like(parameter)
        average: Tensor = state["square_avg"]
        return average

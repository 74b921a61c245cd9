"""Tracks which parameters got a gradient, for strategies whose gradients are buffers that are never None."""

from functools import partial

from torch import Tensor, nn


class ArrivedGradients:
    """Tracks which trained parameters backward reached since the last reset.

    A buffer of zeros cannot distinguish "no gradient" from "a gradient of zeros"; autograd's hook can.
    """

    def __init__(self, model: nn.Module) -> None:
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._names = [name for name, _ in trained]
        self._arrived: set[str] = set()
        self._hooks = [p.register_post_accumulate_grad_hook(partial(self._note, name)) for name, p in trained]

    def _note(self, name: str, _: Tensor) -> None:
        self._arrived.add(name)

    def missing(self) -> list[str]:
        """Names of trained parameters without a gradient, in order of registration."""
        if len(self._arrived) == len(self._names):
            return []
        return [name for name in self._names if name not in self._arrived]

    def reset(self) -> None:
        """Forget what arrived: the next update begins."""
        self._arrived.clear()

    def close(self) -> None:
        """Remove the hooks from the model."""
        for hook in self._hooks:
            hook.remove()

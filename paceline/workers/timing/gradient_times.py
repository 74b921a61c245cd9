"""When each gradient tensor was ready, on sampled steps."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from paceline.workers.timing.ticks import Tick, Ticks


class GradientTimes:
    """Notes when backward reached each parameter. Hooks are on the model only during sampled steps."""

    def __init__(self, parameters: Sequence[Tensor], ticks: Ticks) -> None:
        self._parameters = parameters
        self._ticks = ticks
        self._hooks: list[RemovableHandle] = []
        self._moments: dict[int, Tick] = {}
        self._steps: list[int] = []
        self._rows: list[list[float]] = []

    def arm(self) -> None:
        """Time the next step's gradients."""
        self._hooks = [
            p.register_post_accumulate_grad_hook(partial(self._note, index)) for index, p in enumerate(self._parameters)
        ]

    def _note(self, index: int, _: Tensor) -> None:
        self._moments[index] = self._ticks.now()  # of several micro-batches the last one counts

    def take(self) -> dict[int, Tick]:
        """Return what was noted in the finished step, and remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        moments, self._moments, self._hooks = self._moments, {}, []
        return moments

    def keep(self, step: int, noted: dict[int, Tick], backward_begin: float) -> None:
        """Convert what was noted to seconds, and keep it if every gradient was seen."""
        if len(noted) == len(self._parameters):
            moments = self._ticks.seconds([noted[index] for index in range(len(noted))])
            self._steps.append(step)
            self._rows.append([moment - backward_begin for moment in moments])

    def series(self) -> dict[str, npt.NDArray[np.float64]]:
        """Sampled steps, and for each of them and each tensor the seconds since backward began."""
        return {
            "gradient_step": np.array(self._steps, dtype=np.float64),
            "gradient_ready": np.array(self._rows, dtype=np.float64).reshape(-1, len(self._parameters)),
        }

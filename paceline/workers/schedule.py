"""The learning rate of every step: the workload's, scaled by a rule, after a warm-up."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A constant learning rate, scaled for the number of workers; warm-up begins at the unscaled rate."""

    base: float
    rule: Literal["none", "linear", "sqrt"]
    workers: int
    warmup_steps: int

    @property
    def target(self) -> float:
        """The rate after warm-up: base × workers (linear) or × √workers (sqrt)."""
        factor = {"none": 1.0, "linear": float(self.workers), "sqrt": math.sqrt(self.workers)}[self.rule]
        return self.base * factor

    def rate(self, step: int) -> float:
        """The rate of the update that ends step `step`, counted from 0."""
        if step >= self.warmup_steps:
            return self.target
        return self.base + (self.target - self.base) * (step + 1) / self.warmup_steps

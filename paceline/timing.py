"""Which steps of a run are timed: those after a warm-up detected in the data, or a fixed number of steps."""

from dataclasses import dataclass

from paceline.grammar import bind, choose, parse, require


@dataclass(frozen=True)
class Fixed:
    """Exactly `steps` steps after exactly `warmup`: no interval, and no check of whether the pace was steady."""

    warmup: int = 10
    steps: int = 20

    def __post_init__(self) -> None:
        require(self.warmup >= 0, f"--timing fixed:warmup={self.warmup} is not valid: it must be at least 0.")
        require(self.steps >= 1, f"--timing fixed:steps={self.steps} is not valid: it must be at least 1.")

    @property
    def total(self) -> int:
        """Steps to run."""
        return self.warmup + self.steps


def fixed_timing(text: str) -> Fixed | None:
    """The counts of `fixed:warmup=10,steps=20`; None for `detected`."""
    part = parse(text, "value of --timing")
    choose(part.name, ("detected", "fixed"), "value of --timing")
    if part.name == "fixed":
        return bind(part, Fixed, "timing")
    require(not part.options, f"--timing {text} is not valid: detected has no options.")
    return None

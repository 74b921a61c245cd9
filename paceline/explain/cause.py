"""What a cause is: seconds of every step, a sentence, its evidence, and what to do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One reason why a step takes as long as it does."""

    name: str
    headline: str
    """How a run is called in which this is the largest cause."""

    seconds: float
    """Of every step: beyond the ideal where there is a baseline, in all where there is none."""

    sentence: str
    evidence: tuple[str, ...]
    remedy: str
    rank: int | None = None
    """The worker it comes from, if it is one."""

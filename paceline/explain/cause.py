"""A cause of lost time: its seconds per step, a sentence, the evidence for it, and a remedy."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One reason why a step takes as long as it does."""

    name: str
    headline: str
    """How the verdict begins where this is the largest cause, as in "Input-bound"."""

    seconds: float
    """Per step: beyond the ideal where there is a baseline, otherwise in total."""

    sentence: str
    evidence: tuple[str, ...]
    remedy: str
    rank: int | None = None
    """The worker that causes it; None where no single worker does."""

"""The engine protocol: an engine starts the workers of a plan and returns the record."""

from pathlib import Path
from typing import Protocol

from paceline.engines.plan import Plan
from paceline.network import Site
from paceline.record import Record
from paceline.record_parts import Validation


class Display(Protocol):
    """Shows how a run proceeds: a progress bar, lines of a log, or nothing."""

    def ready(self, *, step: int, total_steps: int | None) -> None:
        """All workers are about to train."""

    def progress(self, *, step: int, samples: int, loss: float | None) -> None:
        """Rank 0 has reached this step."""

    def validation(self, result: Validation) -> None:
        """A validation is done."""

    def note(self, text: str) -> None:
        """Show a line of text."""


class NoDisplay:
    """A display that shows nothing."""

    def ready(self, *, step: int, total_steps: int | None) -> None:
        """Ignored."""

    def progress(self, *, step: int, samples: int, loss: float | None) -> None:
        """Ignored."""

    def validation(self, result: Validation) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """Ignored."""


class Engine(Protocol):
    """Starts workers."""

    site: Site
    """Where it runs; plans must be made for this site."""

    def run(self, plan: Plan, out: Path, display: Display) -> Record:
        """Execute a plan; record and sidecar are in `out` afterwards."""

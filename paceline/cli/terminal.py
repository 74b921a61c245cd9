"""The terminal: what users named appears as they wrote it."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """Print a remark to stderr, which leaves stdout to results."""
    print(f"paceline: {text}", file=sys.stderr)


def console(*, stderr: bool = False, markup: bool = False, soft_wrap: bool = False) -> "Console":
    """A console that reads no emoji (`:boom:`) in texts, colours no numbers, and reads markup only on request."""
    from rich.console import Console  # here, so that --help answers at once

    return Console(stderr=stderr, markup=markup, emoji=False, highlight=False, soft_wrap=soft_wrap)

"""The terminal: what users named appears as they wrote it."""

from rich.console import Console


def console(*, stderr: bool = False, markup: bool = False, soft_wrap: bool = False) -> Console:
    """A console that reads no emoji (`:boom:`) in texts, colours no numbers, and reads markup only on request."""
    return Console(stderr=stderr, markup=markup, emoji=False, highlight=False, soft_wrap=soft_wrap)

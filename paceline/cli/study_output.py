"""A study's tables on stdout, at full width, or as one block per row where the terminal is too narrow."""

import contextlib
import os
import sys
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from paceline.errors import RunError
from paceline.studies.table import StudyTable

_GAP = 2


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Flush what is printed here, and raise an error if it could not be written, for example on a full disk."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # who reads has seen enough
    except OSError as error:
        # What is left in the buffer would be tried again, and fail again, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise RunError(
            f"The output cannot be written ({error.strerror}): make room, or send it elsewhere. Finished runs are kept."
        ) from error


def print_table(table: StudyTable, console: Console) -> None:
    """Print a table without cutting it: a narrow terminal gets a block per row, and a file gets the full width."""
    drawn = _draw(table)
    width = Measurement.get(console, console.options.update(max_width=10_000), drawn).maximum
    console.print(Text(table.title, style="bold"), soft_wrap=not console.is_terminal)
    if not console.is_terminal:
        console.width = max(console.width, width)
    if width <= console.width:
        console.print(drawn)
    else:
        _print_blocks(table, console)
    for note in table.notes:
        console.print(Text(f"note: {note}"), soft_wrap=not console.is_terminal)


def _draw(table: StudyTable) -> Grid:
    drawn = Grid(box=box.ROUNDED)
    for heading, numeric in zip(table.headings, table.numeric, strict=True):
        drawn.add_column(Text(heading), justify="right" if numeric else "left", no_wrap=True)
    for texts in table.texts:
        drawn.add_row(*(Text(text) for text in texts))
    return drawn


def _print_blocks(table: StudyTable, console: Console) -> None:
    indent = max(map(len, table.headings), default=0) + _GAP
    for texts in table.texts:
        console.print()
        for heading, text in zip(table.headings, texts, strict=True):
            console.print(Text(f"{heading:{indent}}{text}", overflow="fold"))

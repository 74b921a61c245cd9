"""What `paceline project` prints and draws."""

import json as json_format
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

    from paceline.project.curve import Point
    from paceline.project.questions.answer import Answer
    from paceline.project.questions.extra import ExtraAnswer

_PATIENCE_SECONDS, _REFRESH_SECONDS, _LINE_SECONDS = 2.0, 0.5, 5.0

# Everything else is imported in the functions, so that --help answers at once.


def shown_progress(points: "Sequence[Point]") -> "Iterator[Point]":
    """Yield the points one by one; after two seconds show progress on stderr, as a bar or a line every few seconds."""
    from rich.progress import Progress

    from paceline.cli.terminal import console as plain_console

    console = plain_console(stderr=True)
    with Progress(console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bar:
        task, due = bar.add_task("simulating", total=len(points), visible=False), time.monotonic() + _PATIENCE_SECONDS
        for done, point in enumerate(points):
            yield point
            if time.monotonic() >= due:
                due = time.monotonic() + (_REFRESH_SECONDS if console.is_terminal else _LINE_SECONDS)
                bar.update(task, completed=done, visible=True, refresh=True)
                if not console.is_terminal:
                    console.print(f"simulated {done:,} of {len(points):,} points")


def draw(answer: "Answer", file: Path) -> None:
    from paceline.files import write_whole
    from paceline.report.pictures import png, svg
    from paceline.report.projection import chart

    drawn = svg(chart(answer))
    try:
        write_whole(file, png(drawn) if file.suffix.lower() == ".png" else drawn)
    except OSError as error:
        raise OutputError(f"--chart {file} cannot be written ({error.strerror}): choose another file.") from error


def print_json(answer: "Answer", further: "Sequence[ExtraAnswer]") -> None:
    from paceline.project.questions import words

    content: dict[str, Any] = words.data(answer.curve)
    if answer.used:
        content["columns"] = {"used": dict(answer.used), "not_used": list(answer.unused)}
    for each in further:
        content |= each.data
    print(json_format.dumps(content, indent=2, allow_nan=False))


def print_answer(answer: "Answer", further: "Sequence[ExtraAnswer]") -> None:
    """Print the sentences first, then the table and what it was made of."""
    from rich.text import Text

    from paceline.cli.terminal import console as plain_console
    from paceline.project.questions import words
    from paceline.references.words import about_columns

    console = plain_console(soft_wrap=True)
    first, *others = words.sentences(answer.curve, answer.unit)
    for sentence in (f"{answer.subject}: {first}", *others, *(s for each in further for s in each.sentences)):
        console.print(sentence)
    more = {heading: cells for each in further for heading, cells in each.columns.items()}
    _print_table(words.columns(answer.curve.points, more), console)
    for line in words.about_table(answer.curve.points):
        console.print(line)
    if answer.used:
        console.print(about_columns(answer.used, answer.unused))
    console.print(f"law: {answer.curve.law}")
    console.print(f"validated on {answer.curve.validated_on}")
    for warning in answer.curve.warnings:
        console.print(Text("warning", style="yellow"), warning)


def _print_table(columns: dict[str, list[str]], console: "Console") -> None:
    """Print the full width to a file; leave out the least important columns on a narrow terminal."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table

    spared = ("95 % band", "batch", "step", "nodes")
    for left_out in range(len(spared) + 1):
        kept = {heading: cells for heading, cells in columns.items() if heading not in spared[:left_out]}
        grid = Table(box=box.ROUNDED)
        for heading in kept:
            grid.add_column(heading, justify="right")
        for line in zip(*kept.values(), strict=True):
            grid.add_row(*line)
        needed = Measurement.get(console, console.options.update(max_width=10_000), grid).maximum
        if not console.is_terminal:
            console.width = needed
        if needed <= console.width:
            break
    console.print(grid)

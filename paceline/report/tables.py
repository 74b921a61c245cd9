"""Tables as data: every cell has a text for reading, and a value for sorting and for files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.measure.stats import Figure
from paceline.studies.columns import NOTHING, Value
from paceline.studies.table import figure


@dataclass(frozen=True)
class TableCell:
    """One figure or word; what was not measured has no value."""

    text: str
    value: Value = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """Headings, and a cell for each in every row."""

    name: str
    """Of files; a word."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    lines: tuple[str, ...] = ()
    """For every row the curve it belongs to, so that it is shown when its curve is; empty: all rows always are."""

    notes: tuple[str, ...] = ()

    @cached_property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headings)
        return tuple(not any(isinstance(cell.value, str) for cell in column) for column in columns)


def word(text: str) -> TableCell:
    """A name or a sentence."""
    return TableCell(text, text)


def number(value: Value, written: Callable[[float], str] = str) -> TableCell:
    """A number, or the sign for what was not measured."""
    if isinstance(value, str):
        return word(value)
    return TableCell(NOTHING if value is None else written(value), value)


def interval(value: Figure | None, written: Callable[[float], str], unit: str = "") -> TableCell:
    """A figure with its 95 % interval."""
    if value is None:
        return TableCell(NOTHING)
    return TableCell(with_unit(value, written, unit), value.value, value.low, value.high)


def with_unit(value: Figure | None, written: Callable[[float], str], unit: str) -> str:
    """`1.94× (1.90–1.98)`: the unit once."""
    text, gap, ends = figure(value, written).partition(" ")
    return text if value is None else f"{text}{unit}{gap}{ends}"


def to_markdown(table: PageTable) -> str:
    """A table that any Markdown reader draws; the title is a line above it."""
    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [_line(table.headings), _line(rule, escaped=False)]
    lines.extend(_line([cell.text for cell in row]) for row in table.rows)
    return f"{plain(table.title)}\n\n" + "\n".join(lines) + "".join(f"\n\n{plain(note)}" for note in table.notes)


def _line(texts: Sequence[str], *, escaped: bool = True) -> str:
    return f"| {' | '.join(plain(text) if escaped else text for text in texts)} |"


def plain(text: str) -> str:
    """Markdown in which names stay text: no markup, no HTML, no broken table."""
    return " ".join(text.translate(_MARKUP).split())


_MARKUP = str.maketrans({**{sign: f"\\{sign}" for sign in "\\`*_[]|#"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"})

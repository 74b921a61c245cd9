"""Tables as data: every cell has a text to read and a value for sorting and for files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.measure.scaling import ScalingRow
from paceline.measure.stats import Figure
from paceline.studies.columns import NOTHING, Value
from paceline.studies.table import NOT_KNOWN, figure


@dataclass(frozen=True)
class TableCell:
    """One figure or text; the value is None where nothing was measured."""

    text: str
    value: Value = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """A table of the report."""

    name: str
    """One word, used in file names."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    lines: tuple[str, ...] = ()
    """The curve of each row, which is shown when its curve is; empty where all rows are always shown."""

    notes: tuple[str, ...] = ()

    @cached_property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.headings)
        return tuple(not any(isinstance(cell.value, str) for cell in column) for column in columns)


def word(text: str) -> TableCell:
    """A cell with a name or a sentence."""
    return TableCell(text, text)


def number(value: Value, written: Callable[[float], str] = str) -> TableCell:
    """A cell with a number, or the sign for an unmeasured value."""
    if isinstance(value, str):
        return word(value)
    return TableCell(NOTHING if value is None else written(value), value)


def interval(
    value: Figure | None, written: Callable[[float], str], unit: str = "", missing: str = NOTHING
) -> TableCell:
    """A cell with a figure and its 95 % interval; a figure that is not known has no value."""
    if value is None or not value.known:
        return TableCell(figure(value, written, missing))
    text, gap, remarks = figure(value, written).partition(" ")
    return TableCell(f"{text}{unit}{gap}{remarks}", value.value, value.low, value.high)


def missing(row: ScalingRow) -> str:
    """What a table shows where a setting has no speed-up: it is not known, or there is no baseline."""
    return NOT_KNOWN if row.not_known else NOTHING


def to_markdown(table: PageTable) -> str:
    """The table as Markdown, with its title as a line above it."""
    rule = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [_line(table.headings), _line(rule, escaped=False)]
    lines.extend(_line([cell.text for cell in row]) for row in table.rows)
    return f"{plain(table.title)}\n\n" + "\n".join(lines) + "".join(f"\n\n{plain(note)}" for note in table.notes)


def _line(texts: Sequence[str], *, escaped: bool = True) -> str:
    return f"| {' | '.join(plain(text) if escaped else text for text in texts)} |"


def plain(text: str) -> str:
    """Escape a text for Markdown: no markup, no HTML, no broken table."""
    return " ".join(text.translate(_MARKUP).split())


_MARKUP = str.maketrans({**{sign: f"\\{sign}" for sign in "\\`*_[]|#"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"})

"""A user's table from a CSV file."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.errors import DataError
from paceline.references import cells as cell_texts
from paceline.references.base import Reference, Row, Series
from paceline.references.columns import choose_columns
from paceline.references.headings import LABELS, Heading

_DELIMITERS = "\t;|,"
_COUNTS = ("workers", "devices")
_RATIOS = ("throughput", "speedup", "efficiency")
_EXAMPLE = "workers,throughput,speedup"


@dataclass(frozen=True)
class Line:
    """A line with cells, and its number in the file."""

    number: int
    cells: list[str]


def read(path: Path, chosen: Mapping[str, str] | None = None) -> Reference:
    """Read a table; every combination of strategy, model, feed and series becomes one series.

    `chosen` has the headings of fields that the user chose, by field; all others are understood by their headings.
    """
    lines = lines_of(path)
    if len(lines) < 2:
        raise DataError(f"{path} has no rows: write headings ({_EXAMPLE}) and a line per worker count.")
    rows = [_fitted(path, line, len(lines[0].cells)) for line in lines[1:]]
    columns = list(zip(*(line.cells for line in rows), strict=True))
    headings, notes = choose_columns(lines[0].cells, columns, chosen or {}, f"{path}, line {lines[0].number}")
    headings = [_with_unit(path, heading, columns[index]) for index, heading in enumerate(headings)]
    table = [_values(path, line, headings) for line in rows]
    _in_shares(table, headings, columns)
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for values in table:
        labels = tuple((name, values.pop(name)) for name in LABELS if name in values)
        groups.setdefault(labels, []).append(Row(**values))
    decimals = _decimals(headings, columns, table)
    rate = next((heading for heading in headings if heading.field == "throughput"), None)
    return Reference(
        name=str(path),
        title=path.name,
        source=f"The file {path}.",
        notes=tuple(notes),
        used={heading.text: heading.field for heading in headings if heading.field is not None},
        unused=tuple(heading.text for heading in headings if heading.field is None and heading.text),
        series=tuple(_series(dict(labels), rows, rate, decimals, path.stem) for labels, rows in groups.items()),
    )


def _series(
    labels: Mapping[str, str], rows: Sequence[Row], rate: Heading | None, decimals: Mapping[str, int], name: str
) -> Series:
    return Series(
        label=" ".join(labels.values()) or name,
        rows=tuple(rows),
        workload=labels.get("workload"),
        strategy=labels.get("strategy"),
        feed=labels.get("feed"),
        unit=rate.unit if rate else None,
        units_per_sample=1 if rate and rate.counts_samples else None,
        decimals=decimals,
    )


def lines_of(path: Path) -> list[Line]:
    """The line of headings and all other lines, for any common delimiter."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): give a CSV file.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text ({error}): give a CSV file in UTF-8.") from error
    delimiter = _delimiter(text)
    lines = list(_lines(path, text, delimiter))
    cells = (cell for line in lines[1:] for cell in line.cells)
    if not cell_texts.has_decimal_commas(cells, delimiter, str(path)):
        return lines
    return [*lines[:1], *(replace(line, cells=list(map(cell_texts.with_points, line.cells))) for line in lines[1:])]


def _lines(path: Path, text: str, delimiter: str) -> Iterator[Line]:
    """Lines with cells, without blank lines, comments and the separator line of a Markdown table."""
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, skipinitialspace=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            remark = len(stripped) == 1 and stripped[0].startswith("#")
            if remark or not any(cell.strip(":-") for cell in stripped):
                continue
            yield Line(reader.line_num, stripped[1:-1] if delimiter == "|" else stripped)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; write one row per line.") from error


def _delimiter(text: str) -> str:
    """The most frequent delimiter of the first line that has any."""
    first = next((line for line in text.splitlines() if any(sign in line for sign in _DELIMITERS)), ",")
    return max(_DELIMITERS, key=first.count)


def _fitted(path: Path, line: Line, wanted: int) -> Line:
    """A line with as many cells as there are headings."""
    cells = line.cells
    while len(cells) > wanted and not cells[-1]:
        cells = cells[:-1]
    if len(cells) != wanted:
        raise DataError(
            f"{path}, line {line.number}: {len(cells)} cells, but {wanted} headings; quote numbers with commas, "
            "and leave cells of unknown values empty."
        )
    return Line(line.number, cells)


def _with_unit(path: Path, heading: Heading, column: Sequence[str]) -> Heading:
    """The heading of a rate with the unit of its cells, where they have one: `219 img/s`."""
    if heading.field != "throughput":
        return heading
    units = cell_texts.units_of(column) | ({heading.unit} if heading.unit else set())
    if len(units) > 1:
        raise DataError(f"{path}: {heading.text} is in {' and in '.join(sorted(units))}: write all rows in one unit.")
    unit = next(iter(units), None)
    return heading if unit == heading.unit else cell_texts.in_unit(heading, unit)


def _values(path: Path, line: Line, headings: Sequence[Heading]) -> dict[str, Any]:
    where = f"{path}, line {line.number}"
    values: dict[str, Any] = {"line": line.number}
    for cell, heading in zip(line.cells, headings, strict=True):
        if heading.field is not None and cell.lower() not in cell_texts.NOT_GIVEN:
            values[heading.field] = cell_texts.read_cell(cell, heading, where)
            if heading.steps is not None:
                values.setdefault("steps", heading.steps)
    if not any(name in values for name in _COUNTS):
        raise DataError(f"{where}: the worker count is missing: give it in every row.")
    if "workers" not in values:
        values["workers"] = values["devices"] * values.get("workers_per_device", 1)
    return values


def _in_shares(table: Sequence[dict[str, Any]], headings: Sequence[Heading], columns: Sequence[Sequence[str]]) -> None:
    """Turn efficiencies into fractions, whether the column has fractions or percent."""
    for heading, column in zip(headings, columns, strict=True):
        if heading.field == "efficiency":
            known = [(values, cell) for values, cell in zip(table, column, strict=True) if "efficiency" in values]
            shares = cell_texts.as_shares([c for _, c in known], [v["efficiency"] for v, _ in known], heading)
            for (values, _), share in zip(known, shares, strict=True):
                values["efficiency"] = share


def _decimals(
    headings: Sequence[Heading], columns: Sequence[Sequence[str]], table: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Written digits after the decimal point, for columns that ratios are checked with."""
    return {
        heading.field: cell_texts.decimals(column, [values.get(heading.field) for values in table])
        for heading, column in zip(headings, columns, strict=True)
        if heading.field in _RATIOS
    }

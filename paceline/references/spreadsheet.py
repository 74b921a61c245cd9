"""A user's table from a CSV file."""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import DataError, SpecError
from paceline.references.base import Reference, Row, Series
from paceline.references.headings import LABELS, Heading, read_heading
from paceline.units import parse_seconds

_DELIMITERS = "\t;|,"
_NOT_GIVEN = {"", "-", "–", "—", "n/a", "na", "none", "null", "nan", "?"}
_WHOLE = ("workers", "devices", "workers_per_device", "nodes", "batch", "global_batch", "steps", "samples", "updates")
_TIMES = ("seconds", "step_seconds", "sync_seconds")
_MAY_BE_ZERO = ("sync_seconds",)
_SIGNED = ("loss", "val_loss")
_COUNTS = ("workers", "devices")
_FIGURES = ("throughput", "speedup", "efficiency", "step_seconds", "seconds", "loss", "val_loss")
_EXAMPLE = "workers,throughput,speedup"
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_MINUTES = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)s")
# An efficiency above this is in percent, with or without the sign.
_MUST_BE_PERCENT = 2


@dataclass(frozen=True)
class Line:
    """A line with cells, and its number in the file."""

    number: int
    cells: list[str]


def read(path: Path) -> Reference:
    """Read a table; every combination of strategy, model, feed and series becomes one series."""
    lines = lines_of(path)
    if len(lines) < 2:
        raise DataError(f"{path} has no rows: write headings ({_EXAMPLE}) and a line per worker count.")
    headings = _headings(path, lines[0])
    table = _in_shares([_values(path, line, headings) for line in lines[1:]])
    groups: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for values in table:
        labels = tuple((name, values.pop(name)) for name in LABELS if name in values)
        groups.setdefault(labels, []).append(Row(**values))
    decimals = _decimals(headings, lines[1:])
    rate = next((heading for heading in headings if heading.field == "throughput"), None)
    unread = [heading.text for heading in headings if heading.field is None and heading.text]
    return Reference(
        name=str(path),
        title=path.name,
        source=f"The file {path}.",
        notes=(f"Ignored columns: {', '.join(unread)}.",) if unread else (),
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
    return list(_lines(path, text))


def _lines(path: Path, text: str) -> Iterator[Line]:
    """Lines with cells, without blank lines, comments and the separator line of a Markdown table."""
    delimiter = _delimiter(text)
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


def _headings(path: Path, line: Line) -> list[Heading]:
    headings = [read_heading(cell) for cell in line.cells]
    where = f"{path}, line {line.number}"
    seen: dict[str, str] = {}
    for heading in headings:
        if heading.field in seen:
            raise DataError(
                f"{where}: {seen[heading.field]!r} and {heading.text!r} both mean {heading.field}: keep one."
            )
        if heading.field is not None:
            seen[heading.field] = heading.text
    cells = ", ".join(line.cells)
    if not any(name in seen for name in _COUNTS):
        raise DataError(f"{where}: none of the headings ({cells}) is a worker count: name one `workers` or `gpus`.")
    if not any(name in seen for name in _FIGURES):
        raise DataError(f"{where}: none of the headings ({cells}) is a result: name one `throughput` or `images/s`.")
    return headings


def _values(path: Path, line: Line, headings: Sequence[Heading]) -> dict[str, Any]:
    cells = line.cells
    while len(cells) > len(headings) and not cells[-1]:
        cells = cells[:-1]
    where = f"{path}, line {line.number}"
    if len(cells) != len(headings):
        raise DataError(
            f"{where}: {len(cells)} cells, but {len(headings)} headings; quote numbers with commas, "
            "and leave cells of unknown values empty."
        )
    values: dict[str, Any] = {"line": line.number}
    for cell, heading in zip(cells, headings, strict=True):
        if heading.field is not None and cell.lower() not in _NOT_GIVEN:
            values[heading.field] = _value(cell, heading, where)
            if heading.steps is not None:
                values.setdefault("steps", heading.steps)
    if not any(name in values for name in _COUNTS):
        raise DataError(f"{where}: the worker count is missing: give it in every row.")
    if "workers" not in values:
        values["workers"] = values["devices"] * values.get("workers_per_device", 1)
    return values


def _value(cell: str, heading: Heading, where: str) -> Any:
    field = heading.field or ""
    if field in (*LABELS, "machine"):
        return cell
    refusal = DataError(f"{where}: {heading.text} {cell!r} is not valid: it must be {_rule(field)}.")
    try:
        value = _seconds(cell, heading) if field in _TIMES else _number(cell)
    except ValueError:
        raise refusal from None
    least_is_kept = value > 0 or field in _SIGNED or (value == 0 and field in _MAY_BE_ZERO)
    if not (math.isfinite(value) and least_is_kept):
        raise refusal
    if field in _WHOLE:
        if value != int(value):
            raise refusal
        return int(value)
    percent = heading.unit == "%" or cell.endswith("%")
    return value / 100 if field == "efficiency" and percent else value


def _rule(field: str) -> str:
    if field in _WHOLE:
        return "a whole number above 0"
    return "a number" + ("" if field in _SIGNED else " not below 0" if field in _MAY_BE_ZERO else " above 0")


def _number(cell: str) -> float:
    plain = cell.rstrip("%×xX ").strip()
    return float(plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain)


def _seconds(cell: str, heading: Heading) -> float:
    """`0m33.5s`, `8 min`, `250ms`, or a plain number in the unit of its heading."""
    if match := _MINUTES.fullmatch(cell.replace(" ", "")):
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return 3600 * hours + 60 * minutes + seconds
    try:
        return _number(cell) * parse_seconds(f"1{heading.unit or 's'}")
    except ValueError:
        try:
            return parse_seconds(cell.replace("min", "m"))
        except SpecError as error:
            raise ValueError(cell) from error


def _in_shares(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Efficiencies as fractions, whether the column has fractions or percent."""
    highest = max((values.get("efficiency", 0) for values in table), default=0)
    if highest <= _MUST_BE_PERCENT:
        return table
    return [{**v, "efficiency": v["efficiency"] / 100} if "efficiency" in v else v for v in table]


def _decimals(headings: Sequence[Heading], lines: Sequence[Line]) -> dict[str, int]:
    """Written digits after the decimal point, for columns that ratios are checked with; 92 % has two."""
    decimals = {}
    for index, heading in enumerate(headings):
        if heading.field in ("throughput", "speedup", "efficiency"):
            cells = [line.cells[index] for line in lines]
            numbers = [
                plain for cell in cells if re.fullmatch(r"[\d.]+", plain := cell.rstrip("%×xX ").replace(",", ""))
            ]
            percent = heading.field == "efficiency" and any(float(n) > _MUST_BE_PERCENT for n in numbers)
            decimals[heading.field] = max((len(n.partition(".")[2]) for n in numbers), default=0) + 2 * percent
    return decimals

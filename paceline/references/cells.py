"""Cells of a user's table: numbers, times and rates as people write them, with decimal commas where a file has them."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from paceline.errors import DataError, SpecError
from paceline.references.headings import LABELS, PER_SECOND, Heading, counts_samples
from paceline.units import parse_seconds

NOT_GIVEN = {"", "-", "–", "—", "n/a", "na", "none", "null", "nan", "?"}
_WHOLE = ("workers", "devices", "workers_per_device", "nodes", "batch", "global_batch", "steps", "samples", "updates")
_TIMES = ("seconds", "step_seconds", "sync_seconds")
_MAY_BE_ZERO = ("sync_seconds",)
_SIGNED = ("loss", "val_loss")
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
_MINUTES = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)s")
_SIGNS = "%×xX "
# 219,5 and 1.234,5 have a decimal comma; 1,234.5 has none; 1,234 may be either.
_DECIMAL_COMMA = re.compile(r"-?(\d+,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+|\d{1,3}(\.\d{3})+,\d+)")
_DECIMAL_POINT = re.compile(r"-?(\d{1,3}(,\d{3})*|\d+)\.\d+")
_EITHER = re.compile(r"-?\d{1,3},\d{3}")
_WITH_UNIT = re.compile(r"(-?[\d.,]+)\s*([a-zA-Z].*)")
# A file with these between its cells may have commas in its numbers.
_LEAVES_COMMAS = ";\t"


def has_decimal_commas(cells: Iterable[str], delimiter: str, where: str) -> bool:
    """Whether 219,5 is 219.5 in this file; refuses a file of which it cannot be said."""
    if delimiter not in _LEAVES_COMMAS:
        return False
    plain = [_without_unit(cell) for cell in cells]
    commas = next((cell for cell in plain if _DECIMAL_COMMA.fullmatch(cell)), None)
    points = next((cell for cell in plain if _DECIMAL_POINT.fullmatch(cell)), None)
    if commas is not None and points is not None:
        raise DataError(f"{where}: {commas!r} has a decimal comma and {points!r} a decimal point: write all alike.")
    unclear = next((cell for cell in plain if _EITHER.fullmatch(cell)), None)
    if commas is None and points is None and unclear is not None:
        mended = unclear.replace(",", ""), unclear.replace(",", ".")
        raise DataError(
            f"{where}: {unclear!r} is {mended[0]} or {mended[1]}: write it without the comma, or with a point."
        )
    return commas is not None


def _without_unit(cell: str) -> str:
    match = _WITH_UNIT.fullmatch(cell)
    return (match[1] if match else cell).rstrip(_SIGNS).strip()


def with_points(cell: str) -> str:
    """`1.234,5` → `1234.5`, for files with decimal commas."""
    number = _without_unit(cell)
    if not re.fullmatch(r"-?[\d.]+(,\d+)?", number):
        return cell
    return cell.replace(number, number.replace(".", "").replace(",", "."), 1)


def read_cell(cell: str, heading: Heading, where: str) -> Any:
    """The value of a cell, in the unit of its row's field; refuses what is none."""
    field = heading.field or ""
    if field in (*LABELS, "machine"):
        return cell
    try:
        value = _seconds(cell, heading) if field in _TIMES else _number(cell, heading)
    except ValueError:
        raise _refusal(cell, heading, where) from None
    least_is_kept = value > 0 or field in _SIGNED or (value == 0 and field in _MAY_BE_ZERO)
    if not (math.isfinite(value) and least_is_kept):
        raise _refusal(cell, heading, where)
    if field in _WHOLE:
        if value != int(value):
            raise _refusal(cell, heading, where)
        return int(value)
    return value


def _refusal(cell: str, heading: Heading, where: str) -> DataError:
    remedy = ""
    if (match := _WITH_UNIT.fullmatch(cell)) and heading.field not in _TIMES:
        remedy = f" Write {match[1]} alone, and the unit ({match[2]}) in the heading."
    return DataError(f"{where}: {heading.text} {cell!r} is not valid: it must be {_rule(heading.field or '')}.{remedy}")


def _rule(field: str) -> str:
    if field in _WHOLE:
        return "a whole number above 0"
    return "a number" + ("" if field in _SIGNED else " not below 0" if field in _MAY_BE_ZERO else " above 0")


def _number(cell: str, heading: Heading) -> float:
    plain = cell.rstrip(_SIGNS).strip()
    if heading.field == "throughput" and (match := _WITH_UNIT.fullmatch(cell)) and rate_unit(match[2]):
        plain = match[1]
    return float(plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain)


def rate_unit(text: str) -> str | None:
    """The unit of a rate: `img/s` and `images/sec` → `images/s`; None where it is none."""
    words = " ".join(re.findall(r"[a-z0-9]+", text.lower()))
    match = re.fullmatch(PER_SECOND, words)
    return None if match is None else f"{match['noun']}/s"


def in_unit(heading: Heading, unit: str | None) -> Heading:
    """The heading of a rate in another unit."""
    return replace(heading, unit=unit, counts_samples=unit is not None and counts_samples(unit))


def units_of(cells: Sequence[str]) -> set[str]:
    """The units of the rates in a column whose cells have them."""
    matches = (_WITH_UNIT.fullmatch(cell) for cell in cells)
    return {unit for match in matches if match and (unit := rate_unit(match[2]))}


def _seconds(cell: str, heading: Heading) -> float:
    """`0m33.5s`, `8 min`, `250ms`, or a plain number in the unit of its heading."""
    if match := _MINUTES.fullmatch(cell.replace(" ", "")):
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return 3600 * hours + 60 * minutes + seconds
    try:
        return _number(cell, heading) * parse_seconds(f"1{heading.unit or 's'}")
    except ValueError:
        try:
            return parse_seconds(cell.replace("min", "m").replace("sec", "s"))
        except SpecError as error:
            raise ValueError(cell) from error


def as_shares(cells: Sequence[str], values: Sequence[float], heading: Heading) -> list[float]:
    """Efficiencies as fractions: in percent where the heading or a cell says so, or else where most are above 2."""
    signed = [heading.unit == "%" or cell.endswith("%") for cell in cells]
    plain = sorted(value for value, sign in zip(values, signed, strict=True) if not sign)
    percent = bool(plain) and plain[len(plain) // 2] > _MUST_BE_PERCENT
    return [value / 100 if sign or percent else value for value, sign in zip(values, signed, strict=True)]


# An efficiency above this is in percent, with or without the sign.
_MUST_BE_PERCENT = 2


def decimals(cells: Sequence[str], values: Sequence[float | None]) -> int:
    """Written digits after the decimal point; an efficiency of 92 % has two, of 92.5 % three."""
    most = 0
    for cell, value in zip(cells, values, strict=True):
        plain = _without_unit(cell).replace(",", "")
        if value and re.fullmatch(r"[\d.]+", plain):
            percent = float(plain) > 50 * value  # written times 100
            most = max(most, len(plain.partition(".")[2]) + 2 * percent)
    return most

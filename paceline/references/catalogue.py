"""The references by name: TOML files that come with Paceline."""

import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from paceline.grammar import choose
from paceline.references.base import Method, PublishedColumn, Reference, Row, Series

FOLDER = Path(__file__).parent / "tables"

# Keys that a file may give once for all its series.
_SHARED = ("strategy", "feed", "scaling", "unit", "units_per_sample")


def names() -> tuple[str, ...]:
    """The names of all references, in order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


@cache
def load(name: str) -> Reference:
    """The reference called `name`; an unknown name is refused with the closest one as a suggestion."""
    text = (FOLDER / f"{choose(name, names(), 'reference')}.toml").read_text()
    content = tomllib.loads(text, parse_float=Decimal)  # 5.50 has two decimals, as a float it would not
    shared = {key: content.pop(key) for key in _SHARED if key in content}
    method, usual = content.pop("method", {}), content.pop("usual", {})
    series = [_series({**shared, **entry}, method, usual) for entry in content.pop("series")]
    columns = [PublishedColumn(**column) for column in content.pop("columns")]
    return Reference(
        name=name,
        series=tuple(series),
        columns=tuple(columns),
        notes=tuple(content.pop("notes", ())),
        **content,
    )


def _series(entry: Mapping[str, Any], method: Mapping[str, Any], usual: Mapping[str, Any]) -> Series:
    """`usual` holds the defaults of all rows, `method` how all series were measured unless they say otherwise."""
    settings = dict(entry)
    own, rows = settings.pop("method", {}), settings.pop("rows", [])
    usual = {**usual, **settings.pop("usual", {})}
    return Series(
        rows=tuple(Row(**_plain({**usual, **row})) for row in rows),
        method=Method(**_plain({**method, **own})),
        decimals=_decimals(rows),
        **_plain(settings),
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert lists to tuples and decimals to floats."""
    return {name: _value(value) for name, value in values.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value, value))
    return float(value) if isinstance(value, Decimal) else value


def _decimals(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The largest number of decimal digits of each column with fractions."""
    digits: dict[str, int] = {}
    for name, value in (item for row in rows for item in row.items()):
        if isinstance(value, Decimal):
            digits[name] = max(digits.get(name, 0), -int(value.as_tuple().exponent))
    return digits

"""The references by name: TOML files that come with Paceline."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paceline.grammar import choose
from paceline.references.base import Column, Method, Reference, Row, Series

FOLDER = Path(__file__).parent / "tables"

# What a file may say once for all its series.
_SHARED = ("strategy", "feed", "scaling", "unit", "units_per_sample")


def names() -> tuple[str, ...]:
    """All there are, in order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml")))


@cache
def load(name: str) -> Reference:
    """The reference called `name`; an unknown name is refused with the nearest."""
    content = tomllib.loads((FOLDER / f"{choose(name, names(), 'reference')}.toml").read_text())
    shared = {key: content.pop(key) for key in _SHARED if key in content}
    method, batch = content.pop("method", {}), content.pop("batch", None)
    series = [_series({**shared, **entry}, method, batch) for entry in content.pop("series")]
    columns = [Column(**column) for column in content.pop("columns")]
    return Reference(
        name=name,
        series=tuple(series),
        columns=tuple(columns),
        notes=tuple(content.pop("notes", ())),
        **content,
    )


def _series(entry: Mapping[str, Any], method: Mapping[str, Any], batch: int | None) -> Series:
    settings = dict(entry)
    own, rows = settings.pop("method", {}), settings.pop("rows", [])
    usual = {"batch": settings.pop("batch", batch)}
    return Series(
        rows=tuple(Row(**_frozen({**usual, **row})) for row in rows),
        method=Method(**_frozen({**method, **own})),
        **settings,
    )


def _frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

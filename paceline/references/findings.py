"""The findings of checks, and the wording and rounding that checks share."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.references.base import Reference, Row, Series

_MANY = 12

Severity = Literal["fault", "warning", "note"]
"""A fault: a figure is wrong or too favourable. A warning: it may be. A note: an explanation of a figure."""


@dataclass(frozen=True)
class Remark:
    """What a check found in one series."""

    severity: Severity
    sentence: str
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A remark, with the check that made it and the series it holds for."""

    check: str
    severity: Severity
    series: tuple[str, ...]
    sentence: str
    rows: tuple[Row, ...]


Check = Callable[[Series, Reference], Iterator[Remark]]


@dataclass(frozen=True)
class Band:
    """All values that may have been rounded or truncated to a published figure."""

    low: float
    high: float

    def __truediv__(self, other: "Band") -> "Band":
        return Band(self.low / other.high, self.high / other.low if other.low > 0 else float("inf"))

    def widened(self, share: float) -> "Band":
        """The band extended by a margin on either side."""
        return Band(self.low * (1 - share), self.high * (1 + share))

    def meets(self, other: "Band") -> bool:
        """Whether both bands may be the same figure."""
        return self.low <= other.high and other.low <= self.high


def band(series: Series, row: Row, name: str) -> Band:
    """The possible values of a published figure before rounding or truncation."""
    value = getattr(row, name)
    unit = 10.0 ** -series.written_decimals[name]
    return Band(value - unit / 2, value + unit)


def at_workers(rows: Iterable[Row]) -> str:
    """`at 12 and 16 workers`."""
    counts = [str(count) for count in dict.fromkeys(row.workers for row in rows) if count is not None]
    noun = "worker" if counts == ["1"] else "workers"
    return f"at {listed(counts)} {noun}" if counts else "in a row without a count of workers"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`; of many, the first ones and how many others there are."""
    if len(words) > _MANY:
        words = [*words[: _MANY - 1], f"{len(words) - _MANY + 1:,} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))

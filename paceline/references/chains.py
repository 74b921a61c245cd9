"""Rows of a series that may be compared: equal settings, ordered so that each has more workers, and no fewer nodes."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from paceline.references.base import Row, Series


@dataclass(frozen=True)
class CurvePoint:
    """One setting of a chain: its rows, and the typical figure per device."""

    devices: float
    rows: tuple[Row, ...]
    value: float
    """The published figure: a rate, a speed-up, an efficiency or a step time; the median of repeats."""

    figure: str
    """The field of `Row` that `value` comes from."""

    @cached_property
    def level(self) -> float:
        """Logarithm of the rate per device, up to a constant that all points of a chain share."""
        return _level(self.figure, self.value, self.devices)

    @property
    def log_devices(self) -> float:
        """Logarithm of the devices."""
        return math.log(self.devices)

    @property
    def leaves_node(self) -> bool:
        """Whether the rows are known to be on several nodes."""
        return any((row.nodes or 1) > 1 for row in self.rows)

    def moved(self, by: float) -> float:
        """The figure that this point would have at a level higher by this much."""
        return self.value * math.exp(-by if self.figure == "step_seconds" else by)


def chains(series: Series) -> Iterator[list[CurvePoint]]:
    """Each chain in order of devices: in the same setting, more of them cannot make each of them faster."""
    figure = _figure(series)
    if figure is None:
        return
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in series.rows:
        if row.used_devices and _value(series, row, figure):
            alike.setdefault(_setting(series, row), []).append(row)
    for rows in alike.values():
        for placed in _placed(rows):
            yield _points(series, placed, figure)


def _figure(series: Series) -> str | None:
    """The figure that most rows have, the most direct one first."""
    known = {
        name: sum(_value(series, row, name) is not None for row in series.rows)
        for name in ("throughput", "step_seconds", "speedup", "efficiency")
    }
    name = max(known, key=lambda figure: known[figure], default=None)
    return name if name is not None and known[name] else None


def _value(series: Series, row: Row, figure: str) -> float | None:
    """A figure of a row. The step time of several batches says nothing by itself, a rate does."""
    if figure == "throughput":
        return series.rate(row)
    value: float | None = getattr(row, figure)
    return 1.0 if figure == "speedup" and value is None and row.used_devices == 1 else value


def _level(figure: str, value: float, devices: float) -> float:
    of_one = {"throughput": value / devices, "speedup": value / devices, "step_seconds": 1 / value}
    return math.log(of_one.get(figure, value))


def _setting(series: Series, row: Row) -> tuple[object, ...]:
    """What rows must share: machine, workers on a device, and the batch of a worker unless one batch is divided."""
    batch = None if series.divides_one_batch else row.batch
    return (row.machine, row.workers_per_device or 1, row.uncounted_devices or 0, batch)


def _placed(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows on nodes as full as possible; and, for each other filling of nodes, the rows that have it."""
    fills = {id(row): math.ceil(row.workers / row.nodes) for row in rows if row.workers and row.nodes}
    if len(fills) < len(rows):
        yield list(rows)
        return
    capacity = max(fills.values())
    full = [row for row in rows if row.nodes == math.ceil((row.workers or 0) / capacity)]
    yield full
    inside = {id(row) for row in full}
    by_fill: dict[int, list[Row]] = {}
    for row in rows:
        by_fill.setdefault(fills[id(row)], []).append(row)
    for same in by_fill.values():
        if any(id(row) not in inside for row in same):
            yield same


def _points(series: Series, rows: Sequence[Row], figure: str) -> list[CurvePoint]:
    by_devices: dict[float, list[Row]] = {}
    for row in rows:
        by_devices.setdefault(row.used_devices or 0, []).append(row)
    points = []
    for devices, same in sorted(by_devices.items()):
        values = [value for row in same if (value := _value(series, row, figure))]
        points.append(CurvePoint(devices, tuple(same), statistics.median(values), figure))
    return points

"""Which series of a reference a curve of ours is compared with, and which of its rows with which setting."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.measure.stats import Figure
from paceline.record import Record
from paceline.references.base import Reference, Row, Series
from paceline.report.results import Result


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """As many workers of a curve of ours and of the series it is compared with; one of both may not have them."""

    line: str
    """The curve of ours."""

    strategy: str
    workers: int
    workers_per_device: int
    ours: Result | None
    series: Series | None
    theirs: Row | None

    @property
    def ours_speedup(self) -> Figure | None:
        """Against one worker alone."""
        return self.ours.scaling.speedup if self.ours is not None else None

    @property
    def ours_efficiency(self) -> Figure | None:
        """Share of the ideal."""
        return self.ours.scaling.efficiency if self.ours is not None else None

    @property
    def theirs_speedup(self) -> Figure | None:
        """From their speeds, by our definition; as published where speeds are not given. They have no intervals."""
        return _figure(self.series.speedup(self.theirs) if self.series and self.theirs else None)

    @property
    def theirs_efficiency(self) -> Figure | None:
        """Share of the ideal, devices that only serve included."""
        return _figure(self.series.efficiency(self.theirs) if self.series and self.theirs else None)

    @property
    def same_strategy(self) -> bool:
        """Whether both exchange in the same way, as far as is known."""
        return self.series is None or _may_be_same(self.series, self.strategy)


def _figure(value: float | None) -> Figure | None:
    return None if value is None else Figure(value, None, None)


def counterparts(rows: Sequence[Result], reference: Reference) -> list[Counterpart]:
    """Curve by curve, by the number of workers; all that either has. A baseline alone is no curve."""
    lines: dict[str, list[Result]] = {}
    for row in rows:
        lines.setdefault(row.line, []).append(row)
    lines = {line: here for line, here in lines.items() if any(row.workers > 1 for row in here)} or lines
    known = [series for series in reference.series if any(series.speedup(row) is not None for row in series.rows)]
    strategies = {_strategy(here) for here in lines.values()}
    # Where nothing is exchanged in the same way, the nearest in workload and feed is better than nothing.
    any_strategy = not any(_may_be_same(series, strategy) for series in known for strategy in strategies)
    found: list[Counterpart] = []
    for line, here in lines.items():
        candidates = [series for series in known if any_strategy or _may_be_same(series, _strategy(here))]
        closest = max(candidates, key=lambda series: _likeness(series, here[0].record), default=None)
        found.extend(_matched(line, here, closest))
    return found


def _strategy(line: Sequence[Result]) -> str:
    return str(line[0].record.spec.strategy)


def _may_be_same(series: Series, strategy: str) -> bool:
    return series.strategy is None or _words(series.strategy)[:1] == _words(strategy.rpartition("+")[2])[:1]


def _likeness(series: Series, record: Record) -> tuple[int, int, int]:
    """The same model counts most, then the same kind of feed, then options that both have and only they have not."""
    ours = [_words(text) for text in (record.spec.workload, record.spec.feed, record.spec.strategy)]
    theirs = [_words(text or "") for text in (series.workload, series.feed, series.strategy)]
    alike = sum(len(set(a) & set(b)) - len(set(b) - set(a)) for a, b in zip(ours, theirs, strict=True))
    return int(ours[0][:1] == theirs[0][:1]), int(ours[1][:1] == theirs[1][:1]), alike


def _words(text: str) -> list[str]:
    """`ps:servers=2,mode=async` → ps, servers=2, mode=async; whatever people write in a table of their own has some."""
    return re.findall(r"[^\s:,+]+", text.lower())


def _matched(line: str, here: Sequence[Result], series: Series | None) -> Iterator[Counterpart]:
    ours = {(result.record.spec.workers_per_device, result.workers): result for result in here}
    theirs = _their_rows(series, {per_device for per_device, _ in ours})
    for place in sorted({*ours, *theirs}):
        yield Counterpart(
            line=line,
            strategy=_strategy(here),
            workers=place[1],
            workers_per_device=place[0],
            ours=ours.get(place),
            series=series,
            theirs=theirs.get(place),
        )


def _their_rows(series: Series | None, per_device: set[int]) -> dict[tuple[int, int], Row]:
    """Rows with as many workers to a device as ours; of several with as many workers, the first with a speed-up."""
    found: dict[tuple[int, int], Row] = {}
    for row in series.rows if series is not None else ():
        if series is None or row.workers is None or series.speedup(row) is None:
            continue
        place = (row.workers_per_device or 1, row.workers)
        if place[0] in per_device:
            found.setdefault(place, row)
    return found

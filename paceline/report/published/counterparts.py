"""Match our curves with series of a reference, and our settings with their rows."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.measure.stats import Figure
from paceline.record import Record
from paceline.references.base import Reference, Row, Series
from paceline.report.results import Result


@dataclass(frozen=True, kw_only=True)
class Counterpart:
    """Our setting and their row with the same number of workers; one of them may be missing."""

    line: str
    """Our curve."""

    strategy: str
    workers: int
    workers_per_device: int
    ours: Result | None
    series: Series | None
    theirs: Row | None

    @property
    def ours_speedup(self) -> Figure | None:
        """Our speed-up over one worker alone."""
        return self.ours.scaling.speedup if self.ours is not None else None

    @property
    def ours_efficiency(self) -> Figure | None:
        """Our efficiency: share of ideal."""
        return self.ours.scaling.efficiency if self.ours is not None else None

    @property
    def theirs_speedup(self) -> Figure | None:
        """Their speed-up from their rates by our definition, or as published; without an interval."""
        return _figure(self.series.speedup(self.theirs) if self.series and self.theirs else None)

    @property
    def theirs_efficiency(self) -> Figure | None:
        """Their efficiency; devices that only host servers count."""
        return _figure(self.series.efficiency(self.theirs) if self.series and self.theirs else None)

    @property
    def same_strategy(self) -> bool:
        """Whether both use the same strategy, as far as it is known."""
        return self.series is None or _may_be_same(self.series, self.strategy)


def _figure(value: float | None) -> Figure | None:
    return None if value is None else Figure(value, fixed=True)


def counterparts(rows: Sequence[Result], reference: Reference) -> list[Counterpart]:
    """All pairs, by curve and number of workers; a baseline alone is not a curve."""
    lines: dict[str, list[Result]] = {}
    for row in rows:
        lines.setdefault(row.line, []).append(row)
    lines = {line: own for line, own in lines.items() if any(row.workers > 1 for row in own)} or lines
    known = [series for series in reference.series if any(series.speedup(row) is not None for row in series.rows)]
    strategies = {_strategy(own) for own in lines.values()}
    # Where no strategy is the same, the most similar workload and feed is better than nothing.
    any_strategy = not any(_may_be_same(series, strategy) for series in known for strategy in strategies)
    pairs: list[Counterpart] = []
    for line, own in lines.items():
        candidates = [series for series in known if any_strategy or _may_be_same(series, _strategy(own))]
        closest = max(candidates, key=lambda series: _likeness(series, own[0].record), default=None)
        pairs.extend(_matched(line, own, closest))
    return pairs


def _strategy(line: Sequence[Result]) -> str:
    return str(line[0].record.spec.strategy)


def _may_be_same(series: Series, strategy: str) -> bool:
    return series.strategy is None or _words(series.strategy)[:1] == _words(strategy.rpartition("+")[2])[:1]


def _likeness(series: Series, record: Record) -> tuple[int, int, int]:
    """Sort key of similarity: the same model first, then the same kind of feed, then shared options."""
    ours = [_words(text) for text in (record.spec.workload, record.spec.feed, record.spec.strategy)]
    theirs = [_words(text or "") for text in (series.workload, series.feed, series.strategy)]
    alike = sum(len(set(a) & set(b)) - len(set(b) - set(a)) for a, b in zip(ours, theirs, strict=True))
    return int(ours[0][:1] == theirs[0][:1]), int(ours[1][:1] == theirs[1][:1]), alike


def _words(text: str) -> list[str]:
    """`ps:servers=2,mode=async` → ps, servers=2, mode=async; also for free text in a user's table."""
    return re.findall(r"[^\s:,+]+", text.lower())


def _matched(line: str, results: Sequence[Result], series: Series | None) -> Iterator[Counterpart]:
    ours = {(result.record.spec.workers_per_device, result.workers): result for result in results}
    theirs = _their_rows(series, {per_device for per_device, _ in ours if _shared_alike(series, results, per_device)})
    for place in sorted({*ours, *theirs}):
        yield Counterpart(
            line=line,
            strategy=_strategy(results),
            workers=place[1],
            workers_per_device=place[0],
            ours=ours.get(place),
            series=series,
            theirs=theirs.get(place),
        )


def _shared_alike(series: Series | None, results: Sequence[Result], per_device: int) -> bool:
    """Whether both shared GPUs in the same way: with MPS workers compute at the same time, without it in turns."""
    first = results[0].record
    if series is None or series.mps is None or per_device == 1 or first.environment.device_kind != "cuda":
        return True
    return series.mps == first.spec.mps


def _their_rows(series: Series | None, per_device: set[int]) -> dict[tuple[int, int], Row]:
    """Their rows with a speed-up and as many workers per device as ours; the first one of each count."""
    rows: dict[tuple[int, int], Row] = {}
    for row in series.rows if series is not None else ():
        if series is None or row.workers is None or series.speedup(row) is None:
            continue
        place = (row.workers_per_device or 1, row.workers)
        if place[0] in per_device:
            rows.setdefault(place, row)
    return rows

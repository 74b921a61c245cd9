"""The layout of seed-003: a row per worker count, a column per feed."""

from collections.abc import Sequence

from paceline.grammar import parse
from paceline.measure.scaling import ScalingRow
from paceline.numbers import rate
from paceline.report.published.fields import throughput
from paceline.report.published.grouped import (
    UNKNOWN,
    about_counts,
    about_devices,
    grouped,
    place_of,
    title_of,
)
from paceline.report.tables import PageTable, number, word
from paceline.studies.columns import NOTHING
from paceline.studies.table import NOT_KNOWN

_PLACES = {"device": "GPU", "host": "CPU", "python": "Python"}


def by_feed(rows: Sequence[ScalingRow]) -> list[PageTable]:
    """A row per worker count and a column per feed; synthetic feeds share one column."""
    return [_feeds_across(group) for group in grouped(rows, across="feed")]


def _feeds_across(rows: Sequence[ScalingRow]) -> PageTable:
    lines: dict[tuple[int, int], dict[str, ScalingRow]] = {}
    for row in rows:
        lines.setdefault(place_of(row), {})[_made_at(row)] = row
    feeds = dict.fromkeys(_made_at(row) for row in rows)
    synthetic = any(place in feeds for place in _PLACES)
    others = [feed for feed in feeds if feed not in _PLACES]
    cells = [
        (
            number(workers),
            *([word("/".join(_rate(line.get(place)) for place in _PLACES))] if synthetic else []),
            *(throughput(line[feed]) if feed in line else UNKNOWN for feed in others),
        )
        for (_, workers), line in lines.items()
    ]
    spec = rows[0].records[0].spec
    about = "GPU, CPU, Python: batches are generated on the device, on the host, or by Python processes; no intervals."
    theirs = (
        "The original also has a column of another program, tensorflow/benchmarks, which these runs do not measure."
    )
    return PageTable(
        name="",
        title=f"{rows[0].records[0].throughput.unit}: {title_of(rows, (spec.workload, spec.strategy))}",
        headings=(
            "#GPU",
            *([f"paceline({'/'.join(_PLACES.values())})"] if synthetic else []),
            *(f"paceline({feed})" for feed in others),
        ),
        rows=tuple(cells),
        notes=(*([about] if synthetic else []), theirs, *about_devices(rows), *about_counts(rows)),
    )


def _made_at(row: ScalingRow) -> str:
    """Where a synthetic feed generates its batches; the name of any other feed."""
    feed = parse(row.records[0].spec.feed, "feed")
    return feed.options.get("at", "device") if feed.name == "synthetic" else str(feed)


def _rate(row: ScalingRow | None) -> str:
    if row is None:
        return NOTHING
    return rate(row.throughput.value) if row.throughput.known else NOT_KNOWN

"""The table of a study for programs: values as JSON represents them, and CSV."""

import csv
import io
from collections.abc import Iterable, Mapping

from paceline.measure.stats import Figure
from paceline.studies.columns import Value
from paceline.studies.estimate import Span
from paceline.studies.table import FIGURES, CellValue, StudyTable


def plain(value: CellValue) -> Value | dict[str, float | None]:
    """The value as JSON represents it."""
    if isinstance(value, Span):
        return {"low": value.low, "high": value.high}
    if not isinstance(value, Figure):
        return value
    if not value.known:
        return {"value": None, "low": None, "high": None}
    flags = {"host_limited": value.host_limited, "impossible": value.impossible}
    marked = {name: True for name, applies in flags.items() if applies}
    return {"value": value.value, "low": value.low, "high": value.high, **marked}


def to_csv(table: StudyTable) -> str:
    """One line per row; a figure with an interval takes three columns."""
    flat = [dict(_flat(row)) for row in table.values]
    header = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _flat(row: Mapping[str, CellValue]) -> Iterable[tuple[str, Value]]:
    for name, value in row.items():
        if isinstance(value, Figure) and value.known:
            yield from ((name, value.value), (f"{name}_low", value.low), (f"{name}_high", value.high))
            if value.host_limited:
                yield f"{name}_host_limited", True
            if value.impossible:
                yield f"{name}_impossible", True
        elif isinstance(value, Span):
            yield from ((f"{name}_low", value.low), (f"{name}_high", value.high))
        elif name in FIGURES or isinstance(value, Figure):
            yield from ((name, None), (f"{name}_low", None), (f"{name}_high", None))
        else:
            yield name, value

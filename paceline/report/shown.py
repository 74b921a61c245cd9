"""Which curves are shown initially: all, or only those similar to the fastest where there are many."""

from collections.abc import Iterable, Sequence

from paceline.report.results import Result, Results
from paceline.traffic.catalogue import exchanges

MOST_AT_FIRST = 10


def choices(results: Results) -> dict[str, tuple[str, ...]]:
    """Every dimension with its values, in order of appearance."""
    return {
        dimension.name: tuple(dict.fromkeys(row.values[dimension.name] for row in results.rows))
        for dimension in results.dimensions
    }


def chosen_first(results: Results) -> dict[str, tuple[str, ...]]:
    """The values selected initially; while too many curves remain, the largest dimension keeps only one value."""
    chosen = choices(results)
    best = fastest(results.rows)
    while len(_lines(results, chosen)) > MOST_AT_FIRST:
        name = max(chosen, key=lambda name: len(chosen[name]))
        chosen[name] = (best.values[name],)
    return chosen


def shown_first(results: Results, lines: Sequence[str] | None = None) -> tuple[str, ...]:
    """The curves shown initially.

    A chart of `lines` without any of them shows its own first ones: the page hides it until one of them is selected,
    but its picture must show something.
    """
    chosen = _lines(results, chosen_first(results))
    if lines is None:
        return chosen
    return tuple(line for line in chosen if line in lines) or tuple(lines[:MOST_AT_FIRST])


def lines_of(rows: Iterable[Result]) -> tuple[str, ...]:
    """The distinct curves of these settings."""
    return tuple(dict.fromkeys(row.line for row in rows))


def fastest(rows: Sequence[Result]) -> Result:
    """The setting with the largest speed-up among those whose workers train one model together."""
    together = [r for r in rows if r.workers > 1 and exchanges(r.record.spec.strategy)]
    return max(together or rows, key=_speed)


def _speed(result: Result) -> tuple[bool, bool, float, float]:
    """Sort key: unknown rates last, before them host-limited ones; then by speed-up, as units of models differ."""
    throughput, speedup = result.scaling.throughput, result.scaling.speedup
    return throughput.known, not throughput.host_limited, speedup.value if speedup else 0.0, throughput.value


def _lines(results: Results, chosen: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    shown = (row for row in results.rows if all(row.values[name] in values for name, values in chosen.items()))
    return tuple(dict.fromkeys(row.line for row in shown))

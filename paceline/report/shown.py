"""Which curves are shown at first: all of them, or of many the ones around the fastest."""

from collections.abc import Iterable, Sequence

from paceline.report.results import Result, Results
from paceline.traffic.catalogue import exchanges

MOST_AT_FIRST = 10


def choices(results: Results) -> dict[str, tuple[str, ...]]:
    """What can be chosen: every dimension with its values, in order of appearance."""
    return {
        dimension.name: tuple(dict.fromkeys(row.values[dimension.name] for row in results.rows))
        for dimension in results.dimensions
    }


def chosen_first(results: Results) -> dict[str, tuple[str, ...]]:
    """The values that are chosen at first; of the dimension with most values only the fastest's, until few are left."""
    chosen = choices(results)
    best = fastest(results.rows)
    while len(_lines(results, chosen)) > MOST_AT_FIRST:
        name = max(chosen, key=lambda name: len(chosen[name]))
        chosen[name] = (best.values[name],)
    return chosen


def shown_first(results: Results, here: Sequence[str] | None = None) -> tuple[str, ...]:
    """The curves that are shown at first. A chart that has others only, of another model, shows some of its own: on
    the page it is hidden until one of them is chosen, but as a picture it stands alone."""
    chosen = _lines(results, chosen_first(results))
    if here is None:
        return chosen
    return tuple(line for line in chosen if line in here) or tuple(here[:MOST_AT_FIRST])


def lines_of(rows: Iterable[Result]) -> tuple[str, ...]:
    """Their curves, each once."""
    return tuple(dict.fromkeys(row.line for row in rows))


def fastest(rows: Sequence[Result]) -> Result:
    """The setting to talk about first: of those that train one model together, the one with the largest speed-up."""
    together = [r for r in rows if r.workers > 1 and exchanges(r.record.spec.strategy)]
    return max(together or rows, key=_speed)


def _speed(result: Result) -> tuple[bool, float, float]:
    """What the host held up last; then speed-up first, as rates of different models are in different units."""
    throughput, speedup = result.scaling.throughput, result.scaling.speedup
    return not throughput.host_limited, speedup.value if speedup else 0.0, throughput.value


def _lines(results: Results, chosen: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    shown = (row for row in results.rows if all(row.values[name] in values for name, values in chosen.items()))
    return tuple(dict.fromkeys(row.line for row in shown))

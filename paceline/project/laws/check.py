"""Accuracy of projections: errors and coverage on hidden rows, compared with baselines, as a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.project.laws.base import Array
from paceline.project.laws.baselines import NAMES, baseline
from paceline.project.laws.forecast import forecast
from paceline.project.laws.heldout import HeldOutTable

OURS = "Paceline"
_SEVERAL = 3


@dataclass(frozen=True, eq=False)
class Checked:
    """A held-out table with every method's relative error at each hidden row, and whether our bands contain the row."""

    case: HeldOutTable
    errors: dict[str, Array]
    in80: Array
    in95: Array
    floor: Array | None
    """Our errors after correcting every hidden pair of workers and nodes by its own median deviation; None where
    no pair has several rows. The remaining error is scatter between the rows of a pair."""


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of one method over hidden rows, as fractions."""

    median: float
    mean: float
    p90: float
    rows: int


def check(case: HeldOutTable) -> Checked:
    """Project the hidden rows from the known ones."""
    hidden = case.hidden
    middle, low80, high80, low95, high95 = forecast(case.known).bands(hidden.at)
    actual = np.log(hidden.seconds)
    errors = {OURS: _errors(case, np.exp(middle))}
    errors |= {name: _errors(case, _by_batch(case, name)) for name in NAMES}
    in80, in95 = ((low <= actual) & (actual <= high) for low, high in ((low80, high80), (low95, high95)))
    return Checked(case, errors, in80.astype(float), in95.astype(float), _floor(case, actual - middle))


def _errors(case: HeldOutTable, seconds: Array) -> Array:
    """Relative errors of step times, or of throughput, which is inversely proportional."""
    ratio = seconds / case.hidden.seconds
    return np.abs((ratio if case.of_steps else 1 / ratio) - 1)


def _floor(case: HeldOutTable, deviation: Array) -> Array | None:
    at = case.hidden.at
    places = np.stack([at.workers, np.ones_like(at.workers) if at.nodes is None else at.nodes], axis=1)
    _, place, rows = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    if rows.max() < _SEVERAL:
        return None
    place = place.reshape(-1)
    own = np.array([np.median(deviation[place == index]) for index in range(len(rows))])
    return _errors(case, np.exp(own[place] - deviation) * case.hidden.seconds)


def _by_batch(case: HeldOutTable, name: str) -> Array:
    """Fit each batch separately, because baselines know only workers."""
    known, hidden = case.known, case.hidden
    predicted = np.empty_like(hidden.seconds)
    batches = (np.zeros_like(t.at.workers) if t.at.batch is None else t.at.batch for t in (known, hidden))
    known_batch, hidden_batch = batches
    for batch in np.unique(hidden_batch):
        rows, asked = known_batch == batch, hidden_batch == batch
        predicted[asked] = baseline(name, known.at.workers[rows], known.seconds[rows], hidden.at.workers[asked])
    return predicted


def summary(errors: Iterable[Array]) -> ErrorSummary:
    """Errors over all rows of several tables."""
    together = np.concatenate(list(errors))
    median, p90 = np.quantile(together, [0.5, 0.9])
    return ErrorSummary(float(median), float(together.mean()), float(p90), len(together))


def coverage(held: Iterable[Array]) -> float:
    """The fraction of hidden rows that a band contains."""
    return float(np.concatenate(list(held)).mean())


def data(checked: Checked) -> dict[str, Any]:
    """One held-out table and its errors as plain data."""
    return {
        "source": checked.case.source,
        "label": checked.case.label,
        "workers": checked.case.hidden.at.workers.tolist(),
        "errors": {name: errors.tolist() for name, errors in checked.errors.items()},
        "in80": checked.in80.tolist(),
        "in95": checked.in95.tolist(),
        "floor": None if checked.floor is None else checked.floor.tolist(),
    }


def page(checked: Sequence[Checked]) -> str:
    """The whole comparison in Markdown."""
    tables = [one for one in checked if not one.case.of_steps]
    steps = [one for one in checked if one.case.of_steps]
    lines = [
        "# How well it projects",
        "",
        "Written by `paceline references check --projection --page docs/how-well-it-projects.md`.",
        "",
        "For every table that comes with Paceline, the largest worker count is hidden and projected from the",
        "smaller ones (counts that at least double, as in 1, 2, 4 → 8). Errors are of throughput. The laws' priors",
        "are the same for all tables, but were chosen with these in view: expect somewhat larger errors on others.",
        "",
        *_totals(tables),
    ]
    if steps:
        lines += [
            "",
            "Step times measured for Pollux (OSDI '21) on 1–64 GPUs in up to 16 nodes at many batches. All rows above",
            "the limit are hidden. Errors are of step time. Baselines know only workers, so batches are fitted apart.",
            "",
            *_totals(steps),
            "",
            *_of_floors(steps),
        ]
    lines += ["", "## Every table", "", *_each(checked), ""]
    return "\n".join(lines)


def _totals(checked: Sequence[Checked]) -> list[str]:
    lines = ["| method | median error | mean | 90th percentile | rows |", "|---|---|---|---|---|"]
    for name in (OURS, *NAMES):
        total = summary(one.errors[name] for one in checked)
        lines.append(f"| {name} | {total.median:.1%} | {total.mean:.1%} | {total.p90:.1%} | {total.rows} |")
    held80, held95 = (coverage(getattr(one, name) for one in checked) for name in ("in80", "in95"))
    return [*lines, "", f"The 80 % band contains {held80:.0%} of the hidden rows, the 95 % band {held95:.0%}."]


def _of_floors(checked: Sequence[Checked]) -> list[str]:
    floors = [one.floor for one in checked if one.floor is not None]
    if not floors:
        return []
    total = summary(floors)
    return [
        f"The floor is {total.mean:.1%} here (90th percentile {total.p90:.1%}). It is the error that remains when each",
        "hidden pair of workers and nodes is shifted by its own median deviation, which only the hidden rows show.",
        "It is scatter from batch to batch.",
    ]


def _each(checked: Sequence[Checked]) -> list[str]:
    """A line per case: mean errors, and for our method also the 90th percentile, the floor and the coverage."""
    lines = ["| table | series | hidden | " + " | ".join((OURS, *NAMES)) + " | 90th | floor, 90th | in 80 % band |"]
    lines.append("|---" * (len(NAMES) + 7) + "|")
    for one in checked:
        counts = sorted({int(count) for count in one.case.hidden.at.workers})
        hidden = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        means = " | ".join(f"{one.errors[name].mean():.1%}" for name in (OURS, *NAMES))
        p90 = f"{summary([one.errors[OURS]]).p90:.1%}" if len(one.in80) > 1 else ""
        floor = "" if one.floor is None else f"{one.floor.mean():.1%}, {summary([one.floor]).p90:.1%}"
        held = f"{one.in80.mean():.0%}" if len(one.in80) > 1 else ("yes" if one.in80[0] else "no")
        lines.append(f"| {one.case.source} | {one.case.label} | {hidden} | {means} | {p90} | {floor} | {held} |")
    return lines

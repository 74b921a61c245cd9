"""Accuracy of projections: errors and coverage on hidden rows, compared with baselines, as a page."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paceline.project.laws.base import NODE_COST, Array
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
    signed: Array
    """Our throughput at each hidden row, divided by the measured one, minus 1."""

    in80: Array
    in95: Array
    below80: Array
    """Whether the measured throughput lies below the 80 % band."""

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


def check(case: HeldOutTable, node_cost: float = NODE_COST) -> Checked:
    """Project the hidden rows from the known ones."""
    hidden = case.hidden
    middle, low80, high80, low95, high95 = forecast(case.known, node_cost).bands(hidden.at)
    actual = np.log(hidden.seconds)
    errors = {OURS: _errors(case, np.exp(middle))}
    errors |= {name: _errors(case, _by_batch(case, name)) for name in NAMES}
    in80, in95 = ((low <= actual) & (actual <= high) for low, high in ((low80, high80), (low95, high95)))
    below, held80, held95 = (which.astype(float) for which in (actual > high80, in80, in95))
    signed = np.exp(actual - middle) - 1
    return Checked(case, errors, signed, held80, held95, below, _floor(case, actual - middle))


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
        "signed": checked.signed.tolist(),
        "in80": checked.in80.tolist(),
        "in95": checked.in95.tolist(),
        "floor": None if checked.floor is None else checked.floor.tolist(),
    }

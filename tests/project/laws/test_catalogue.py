"""The catalogue of laws: each is one file and one line, and what is listed is fitted and documented."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from project.laws.tables import table

import paceline
from paceline.project.curve import Point
from paceline.project.laws import catalogue
from paceline.project.laws.base import Array, Law, Prior, Scope, Settings
from paceline.project.laws.forecast import forecast

FOLDER = Path(paceline.__file__).parent / "project" / "laws"
DOCS = FOLDER.parents[2] / "docs" / "project.md"


@dataclass(frozen=True, eq=False, kw_only=True)
class EveryPair(Law):
    """Every pair of workers exchanges in turn: n(n − 1)/2 messages through one switch."""

    priors: ClassVar[Mapping[str, Prior]] = {"pairs": Prior(0.01, 2.0)}
    limits: ClassVar[Mapping[str, str]] = {"pairs": "the switch"}

    @property
    def exchange_name(self) -> str:
        return "every pair in turn"

    def exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        return {"pairs": named["pairs"] * at.workers * (at.workers - 1) / 2}


def every_pair(scope: Scope) -> Iterator[EveryPair]:
    yield EveryPair(scope=scope, overlaps=False, share=0.5)


COUNTS = [1, 2, 4, 8, 16]
SPEEDS = [100 * n / (1 + 0.02 * n * (n - 1) / 2) for n in COUNTS]


def test_a_law_that_is_listed_is_fitted_named_and_projected_from(monkeypatch: pytest.MonkeyPatch) -> None:
    without = forecast(table(COUNTS, SPEEDS)).curve([Point(32)])
    monkeypatch.setitem(catalogue.LAWS, "every_pair", every_pair)
    fitted = forecast(table(COUNTS, SPEEDS))
    assert fitted.posterior.shares["every pair in turn, not overlapped"] > 0.9
    curve = fitted.curve([Point(32)])
    expected = 100 * 32 / (1 + 0.02 * 32 * 31 / 2)
    assert curve.points[0].throughput == pytest.approx(expected, rel=0.05)
    assert curve.points[0].limit == "the switch"
    assert "every pair in turn" in curve.law
    assert without.points[0].throughput != pytest.approx(expected, rel=0.05), "no other law could have said so"


def test_every_law_is_one_file_one_line_and_one_row_of_the_documentation() -> None:
    text = DOCS.read_text()
    for name, members in catalogue.LAWS.items():
        assert members.__module__ == f"paceline.project.laws.{name}"
        assert f"| `{name}` |" in text
    defining = {path.stem for path in FOLDER.glob("*.py") if "def members(" in path.read_text()}
    assert defining == set(catalogue.LAWS)


@pytest.mark.parametrize("knows_nodes", [True, False])
def test_every_part_of_every_law_names_what_it_limits(knows_nodes: bool) -> None:
    counts = np.array([1.0, 8, 32])
    scope = Scope(1.0, None, counts, knows_nodes)
    at = Settings(counts, np.array([1.0, 1, 4]) if knows_nodes else None, None, 8 if knows_nodes else None)
    for law in catalogue.family(scope):
        parts = law.parts(law.centre[None, :], at)
        assert set(law.limits) <= set(parts)
        assert set(parts) - set(law.limits) <= {"compute", "slowest", "sharing"}

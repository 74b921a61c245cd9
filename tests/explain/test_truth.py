"""Known delays in real runs: explain names the right cause, the right worker and the right time."""

from pathlib import Path
from typing import Any

import pytest

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan
from paceline.explain.data import as_data
from paceline.explain.verdict import account
from paceline.measure.runs import find
from paceline.spec import RunSpec

WITHIN = 0.10
# Long enough that a busy machine's hiccups are small beside the delays.


def explained(folder: Path, workload: str, **settings: Any) -> dict[str, Any]:
    """What `paceline explain --json` says of one real run."""
    spec = RunSpec(workload=workload, workers=2, validate="off", **{"steps": 24, **settings})
    LocalEngine().run(plan(spec), folder, NoDisplay())
    return as_data(account(find([folder]), anyway=False))


def test_a_worker_slow_in_its_backward_is_named_though_everybody_is_late(tmp_path: Path) -> None:
    told = explained(tmp_path, "slowed:slowed:where=backward,seconds=0.2,rank=1")
    first = told["causes"][0]
    assert (first["name"], first["rank"]) == ("straggler", 1)
    assert "its backward takes" in first["sentence"]
    assert first["seconds"] == pytest.approx(0.2, rel=WITHIN)


def test_a_slow_loader_is_named_with_the_time_it_takes(tmp_path: Path) -> None:
    told = explained(tmp_path, "slowed:slowed:where=input,seconds=0.2")
    first = told["causes"][0]
    assert (first["name"], first["rank"]) == ("input", None)
    assert first["seconds"] == pytest.approx(0.2, rel=WITHIN)


def test_a_slow_exchange_is_named_with_the_time_it_takes(tmp_path: Path) -> None:
    told = explained(tmp_path, "slowed:slowed:where=exchange,seconds=0.2")
    first = told["causes"][0]
    assert (first["name"], first["rank"]) == ("exchange", None)
    assert first["seconds"] == pytest.approx(0.2, rel=WITHIN)

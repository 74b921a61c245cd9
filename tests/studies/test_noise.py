"""Equal settings in turns: the noise they show, what later studies say of it, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from studies.quick import Notes, QuickEngine, study
from typer.testing import CliRunner

from paceline.cli.main import app
from paceline.errors import SpecError
from paceline.spec import RunSpec
from paceline.studies.grid import Grid, spread
from paceline.studies.noise import (
    MachineNoise,
    cannot_show,
    equal_settings,
    noise_of,
    notes_file,
    recall,
    remember,
    without_baselines,
)
from paceline.studies.schedule import carry_out
from paceline.studies.store import Store


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def measured(tmp_path: Path, grid: Grid, noise: float = 0.02) -> MachineNoise | None:
    random = np.random.default_rng(5)

    def pace(spec: RunSpec) -> float:
        return float(100 * (1 + spec.turn) * np.exp(noise * random.standard_normal()))

    contents = carry_out(grid, Store(tmp_path / "runs"), QuickEngine(rate=pace), Notes())
    return noise_of(list(contents.records.values()))


def equal(settings: int, turns: int) -> Grid:
    return without_baselines(spread(equal_settings(study(workers=2, repeats=turns), settings)))


def noted(**changes: object) -> MachineNoise:
    usual = {"host": "here", "workload": "vae", "strategy": "allreduce", "workers": 2, "settings": 2, "turns": 5}
    return MachineNoise(**{**usual, "noise": 0.02, "measured": "2026-11-18", **changes})  # type: ignore[arg-type]


def test_equal_settings_show_the_noise_and_not_the_pace_of_the_machine(tmp_path: Path) -> None:
    grid = equal(4, 12)
    assert [cell.label for cell in grid.cells] == ["A", "B", "C", "D"]
    found = measured(tmp_path, grid)
    assert found is not None
    assert (found.settings, found.turns, found.workers) == (4, 12, 2)
    low, high = found.range
    assert low < 0.02 < high
    assert 0.014 < found.noise < 0.027, "although the pace changes twelvefold from turn to turn"


def test_one_turn_shows_no_noise(tmp_path: Path) -> None:
    assert measured(tmp_path, equal(3, 1)) is None


def test_what_is_noted_is_recalled_for_as_many_workers_on_the_same_host() -> None:
    remember(noted(noise=0.05))
    remember(noted(workload="nmt", noise=0.03))
    remember(noted(noise=0.02))
    assert recall("here", 2, "vae:channels=2") == noted(noise=0.02), "the latest one"
    assert recall("here", 2, "resnet18") == noted(noise=0.02)
    assert recall("here", 2, "nmt") == noted(workload="nmt", noise=0.03)
    assert recall("elsewhere", 2, "vae") is None
    assert recall("here", 1, "vae") is None
    assert len(json.loads(notes_file().read_text())) == 2


def test_notes_that_cannot_be_read_are_as_none() -> None:
    notes_file().parent.mkdir(parents=True)
    notes_file().write_text("{")
    assert recall("here", 2, "vae") is None


def test_a_study_says_what_its_turns_cannot_show_here() -> None:
    remember(noted())

    def said(**settings: object) -> list[str]:
        return list(cannot_show(spread(study(workers=2, **settings)), "here"))

    (three,) = said(strategy=["allreduce", "ps"], repeats=3)
    assert three == (
        "Runs of 2 workers vary by 2.0 % here (`paceline noise`, vae, 5 turns, 2026-11-18): with 3 turns, a difference "
        "below 7.3 % among 2 settings cannot be shown."
    )
    (once,) = said(strategy=["allreduce", "ps"])
    assert once.endswith("one turn shows no difference between settings. Take more (--repeats).")
    assert said(strategy="ps") == [], "nothing is compared"
    assert list(cannot_show(spread(study(workers=2, strategy=["allreduce", "ps"])), "elsewhere")) == []


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--repeats", "1"], "--repeats 1 is not valid: noise shows from turn to turn; take at least 2."),
        (["--settings", "1"], "--settings 1 is not valid: compare 2 to 20 equal settings."),
        (["--workers", "4096"], "4096"),
        (["--strategy", "allreduec"], "allreduce"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(flags: list[str], why: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["noise", "vae", "--out", str(tmp_path / "out"), *flags])
    assert why in str(result.exception)
    assert isinstance(result.exception, SpecError)
    assert not (tmp_path / "out").exists()

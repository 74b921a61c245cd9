"""A study's folder: nothing half done, nothing overwritten, one process at a time, and clear answers when it is ill."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from studies.quick import Notes, QuickEngine, study

from paceline.errors import DataError, OutputError
from paceline.record import STUDY_NAME
from paceline.studies.definition import Study
from paceline.studies.grid import Grid, spread
from paceline.studies.schedule import carry_out
from paceline.studies.store import Store

TESTS = Path(__file__).parent.parent


def carried_out(folder: Path, asked: Study, engine: QuickEngine | None = None) -> tuple[Grid, Notes]:
    grid, notes = spread(asked), Notes()
    carry_out(grid, Store(folder), engine or QuickEngine(), notes)
    return grid, notes


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_every_run_has_a_folder_with_its_record_and_series(tmp_path: Path) -> None:
    grid, _ = carried_out(tmp_path, study(workers=[1, 2], repeats=2))
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {run.key for run in grid.in_turns()}
    for run in grid.in_turns():
        assert {p.name for p in Store(tmp_path).folder_of(run).iterdir()} == {"record.json", "series.npz"}
    described = json.loads((tmp_path / STUDY_NAME).read_text())
    assert described["cells"].keys() == {cell.key for cell in grid.cells}


def test_what_is_there_is_not_run_again_and_stays_as_it_is(tmp_path: Path) -> None:
    carried_out(tmp_path, study(workers=[1, 2]))
    before, again = content(tmp_path / "runs"), QuickEngine()
    carried_out(tmp_path, study(workers=[1, 2]), again)
    assert again.ran == []
    assert content(tmp_path / "runs") == before


def test_a_study_may_grow(tmp_path: Path) -> None:
    carried_out(tmp_path, study(workers=[1, 2]))
    before, more = content(tmp_path / "runs"), QuickEngine()
    grid, _ = carried_out(tmp_path, study(workers=[1, 2], strategy=["allreduce", "ps"], repeats=2), more)
    assert len(more.ran) == len(grid.in_turns()) - 3
    assert content(tmp_path / "runs").items() >= before.items()


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"workers": [1, 2], "steps": 9}, "steps: 4 there, 9 here"),
        ({"workers": [1]}, "workers: 1, 2 there, 1 here"),
        ({"workers": [1, 2], "name": "other"}, "name: tried there, other here"),
        ({"workers": [1, 2], "batch": 8, "scaling": "strong"}, "scaling: weak there, strong here"),
    ],
)
def test_another_studys_folder_is_refused_with_what_differs(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    carried_out(tmp_path, study(workers=[1, 2]))
    before = content(tmp_path)
    with pytest.raises(OutputError, match="holds another study") as refused:
        carried_out(tmp_path, study(**other))
    assert said in str(refused.value)
    assert content(tmp_path) == before


def test_fewer_repeats_are_refused(tmp_path: Path) -> None:
    carried_out(tmp_path, study(repeats=2))
    with pytest.raises(OutputError, match="repeats: 2 there, 1 here"):
        carried_out(tmp_path, study())


def test_the_folder_of_a_single_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(OutputError, match="holds the record of a single run"):
        carried_out(tmp_path, study())


def zeroed(data: bytes) -> bytes:
    """With a hole in its middle, as a disk leaves it; beginning and end are as they were."""
    middle = len(data) // 2
    return data[:middle] + bytes(64) + data[middle + 64 :]


# What becomes of a file of the first run, given what it was and what the same file of the last run is.
HARMS: dict[str, tuple[str, Callable[[bytes, bytes], bytes | None]]] = {
    "a record cut short": ("record.json", lambda was, _: was[:-9]),
    "an empty record": ("record.json", lambda *_: b""),
    "no record": ("record.json", lambda *_: None),
    "the record of another run": ("record.json", lambda _, other: other),
    "no series": ("series.npz", lambda *_: None),
    "hardly any series": ("series.npz", lambda *_: b"PK"),
    "series with a hole": ("series.npz", lambda was, _: zeroed(was)),
    "the series of another run": ("series.npz", lambda _, other: other),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_run_is_set_aside_named_and_run_again(tmp_path: Path, harm: str) -> None:
    grid, _ = carried_out(tmp_path, study(workers=[1, 2]), QuickEngine(series=50))
    first, _, last = (Store(tmp_path).folder_of(run) for run in grid.in_turns())
    name, change = HARMS[harm]
    changed = change((first / name).read_bytes(), (last / name).read_bytes())
    (first / name).unlink()
    if changed is not None:
        (first / name).write_bytes(changed)
    harmed, again = content(first), QuickEngine()
    _, notes = carried_out(tmp_path, study(workers=[1, 2]), again)
    assert len(again.ran) == 1
    assert content(tmp_path / "damaged" / first.name) == harmed
    (said,) = (text for text in notes.said if "was moved to" in text)
    assert str(tmp_path / "damaged" / first.name) in said
    assert content(first).keys() == {"record.json", "series.npz"}


@pytest.mark.parametrize("file", ["study", "record"])
def test_a_newer_schema_is_refused_and_nothing_is_touched(tmp_path: Path, file: str) -> None:
    grid, _ = carried_out(tmp_path, study(workers=[1, 2]))
    newer = tmp_path / STUDY_NAME if file == "study" else Store(tmp_path).folder_of(grid.in_turns()[0]) / "record.json"
    newer.write_text(json.dumps({**json.loads(newer.read_text()), "schema_version": 99}))
    before, engine = content(tmp_path), QuickEngine()
    with pytest.raises(
        (OutputError, DataError), match=r"has schema version 99; this Paceline reads up to [12]: update it"
    ):
        carried_out(tmp_path, study(workers=[1, 2, 4], workers_per_device="fit"), engine)
    assert engine.ran == []
    unlocked = {name: data for name, data in content(tmp_path).items() if name not in (".lock", STUDY_NAME)}
    assert unlocked.items() <= before.items()
    assert json.loads(newer.read_text())["schema_version"] == 99


@pytest.mark.parametrize(
    "wrong", [None, {"cells": []}, {"cells": {"a": 5}}, {"repeats": "x"}, {"repeats": None}, {"schema_version": "1"}]
)
def test_an_unreadable_study_file_is_told_and_runs_are_kept(tmp_path: Path, wrong: dict[str, Any] | None) -> None:
    carried_out(tmp_path, study())
    described = json.loads((tmp_path / STUDY_NAME).read_text())
    (tmp_path / STUDY_NAME).write_text(json.dumps({**described, **wrong}) if wrong is not None else "{")
    before = content(tmp_path)
    with pytest.raises(OutputError, match="the runs next to it are kept"):
        carried_out(tmp_path, study(workers=[1, 2]))
    assert content(tmp_path) == before


@pytest.mark.parametrize("there", ["[]", "{}", '{"error": "WorkerLost", "message": 3}', "[" * 100_000])
def test_an_unreadable_note_of_a_failure_is_no_failure(tmp_path: Path, there: str) -> None:
    run = spread(study()).in_turns()[0]
    file = tmp_path / "failed" / run.key / "failure.json"
    file.parent.mkdir(parents=True)
    file.write_text(there)
    assert Store(tmp_path).read([run]).failures == {}


def test_a_folder_with_other_things_is_refused_and_hidden_files_are_no_other_things(tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("")
    carried_out(tmp_path / "study", study())
    (tmp_path / "study" / "notes.txt").write_text("kept beside a study")
    carried_out(tmp_path / "study", study())
    for name in ("thesis.tex", "holiday.jpg", "a", "b"):
        (tmp_path / name).write_text("mine")
    before, engine = content(tmp_path), QuickEngine()
    with pytest.raises(
        OutputError, match=r"holds other files \(a, b, holiday.jpg and 2 more\).* an empty or a new folder"
    ):
        carried_out(tmp_path, study(), engine)
    assert engine.ran == []
    assert {k: v for k, v in content(tmp_path).items() if k != ".lock"} == before


def test_a_folder_with_hidden_files_alone_is_taken(tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("")
    carried_out(tmp_path, study())
    assert (tmp_path / STUDY_NAME).exists()


def test_what_a_killed_process_left_half_done_is_swept(tmp_path: Path) -> None:
    half = tmp_path / "runs" / ".partial-vae-allreduce-1w-0-turn0"
    half.mkdir(parents=True)
    (half / "series.npz").write_text("half")
    grid, _ = carried_out(tmp_path, study())
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {run.key for run in grid.in_turns()}


def test_two_processes_never_work_in_one_folder(tmp_path: Path) -> None:
    grid = spread(study())
    with Store(tmp_path).opened(grid):
        engine = QuickEngine()
        with pytest.raises(OutputError, match=r"is in use by another `paceline study` \(process \d+\)"):
            carried_out(tmp_path, study(), engine)
        assert engine.ran == []
    carried_out(tmp_path, study(), engine)
    assert len(engine.ran) == 2


@pytest.mark.parametrize("place", ["/proc/nowhere", "file/below"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_first_run(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    engine = QuickEngine()
    with pytest.raises(OutputError, match=r"cannot be written \(.*\): choose another folder"):
        carried_out(tmp_path / place, study(), engine)
    assert engine.ran == []


FULL_DISK = """
import sys
from pathlib import Path
from studies.quick import QuickEngine, study
from studies.test_store import carried_out
from paceline.errors import RunError
try:
    carried_out(Path(sys.argv[1]), study(workers=[1, 2]), QuickEngine(lambda spec: None, series=int(sys.argv[2])))
except RunError as error:
    sys.exit(str(error))
"""


def test_a_disk_that_is_full_ends_the_study_and_loses_no_finished_run(tmp_path: Path) -> None:
    """The limit on the size of a file stands in for the disk: the series of one worker fit below it, of two do not."""

    def limited(series: int) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", FULL_DISK, str(tmp_path / "study"), str(series)],
            cwd=TESTS,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
        )

    finished = limited(5_000)  # 8 bytes each
    assert finished.returncode == 1
    assert "cannot be written (File too large). 2 of 3 runs are finished and saved." in finished.stderr
    assert "repeat the same command to resume" in finished.stderr
    kept = content(tmp_path / "study" / "runs")
    assert len(kept) == 4
    assert limited(100).returncode == 0
    assert content(tmp_path / "study" / "runs").items() > kept.items()

"""`paceline study` as a user meets it: tables, refusals, interruption, and kill -9 at any moment."""

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from studies.quick import Notes, QuickEngine

from paceline.cli.study_output import print_table
from paceline.errors import WorkerLost
from paceline.record import Record
from paceline.spec import RunSpec
from paceline.studies.definition import make_study
from paceline.studies.grid import spread
from paceline.studies.schedule import carry_out
from paceline.studies.store import Store
from paceline.studies.table import StudyTable

TESTS = Path(__file__).parent.parent
TINY = ["faulty:faulty", "--workers", "1,2", "--steps", "20", "--out", "out"]


def environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, **variables}


def study(*arguments: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "paceline", "study", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(**variables),
    )


def test_a_study_runs_prints_its_table_and_run_again_only_prints_it(tmp_path: Path) -> None:
    first = study(*TINY, "--columns", "val_loss,sent", "--validate", "end", "--csv", "out.csv", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    for word in ("weak scaling", "batch 8 per worker", "lr 0.05", "points/s", "speed-up", "efficiency", "val_loss"):
        assert word in first.stdout
    assert re.search(r"run 2 of 3 · .*\d+s left · faulty:faulty · allreduce · 1w: starting workers", first.stderr)
    lines = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(line["strategy"], line["workers"]) for line in lines] == [
        ("independent", "1"),
        ("allreduce", "1"),
        ("allreduce", "2"),
    ]
    rates = [line["throughput"] for line in lines]
    assert all(float(known) > 0 for known in rates if known)
    assert first.stdout.count("not known") >= rates.count(""), "a rate that is not known must be said to be"
    records = {p: p.read_bytes() for p in (tmp_path / "out").rglob("record.json")}
    again = study(*TINY, "--columns", "val_loss,sent", "--validate", "end", "--json", cwd=tmp_path)
    assert "All 3 runs exist already" in again.stderr
    assert "starting workers" not in again.stderr
    told = json.loads(again.stdout)
    assert [row["state"] for row in told["rows"]] == ["done"] * 3
    assert {Path(folder) / "record.json" for row in told["rows"] for folder in row["records"]} == {
        p.relative_to(tmp_path) for p in records
    }
    assert {p: p.read_bytes() for p in (tmp_path / "out").rglob("record.json")} == records


def test_a_failed_run_is_told_and_the_exit_code_is_1(tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(
        'steps = 6\n[[variant]]\nlabel = "good"\nworkload = "faulty:faulty"\n'
        '[[variant]]\nlabel = "bad"\nworkload = "faulty:faulty:kind=raise,step=2"\n'
    )
    finished = study("mixed.toml", "--json", cwd=tmp_path)
    assert finished.returncode == 1
    assert "the road ends here" in finished.stderr
    told = json.loads(finished.stdout)
    states = {row["variant"]: row["state"] for row in told["rows"]}
    assert states == {"good": "done", "bad": "failed", "baseline of good": "done", "baseline of bad": "failed"}
    failures = [json.loads(p.read_text()) for p in (tmp_path / "runs" / "mixed" / "failed").glob("*/failure.json")]
    assert {failure["error"] for failure in failures} == {"WorkerFailed"}
    assert "Traceback" not in finished.stderr


def test_the_folders_told_are_those_of_the_records_there_are(tmp_path: Path) -> None:
    """The first turn fails, here and when it is tried again; the second one is there."""
    workload, arguments = "faulty:faulty:kind=raise,step=2", ["--strategy", "independent", "--steps", "4"]

    def fail(spec: RunSpec) -> None:
        if spec.turn == 0:
            raise WorkerLost("")

    table = {"name": "faulty", "workload": workload, "strategy": "independent", "steps": 4, "repeats": 2}
    grid = spread(make_study(table))
    carry_out(grid, Store(tmp_path / "out"), QuickEngine(fail), Notes())
    finished = study(workload, *arguments, "--repeats", "2", "--out", "out", "--json", cwd=tmp_path)
    assert finished.returncode == 1, finished.stderr
    (row,) = json.loads(finished.stdout)["rows"]
    assert row["state"] == "1 of 2 repeats"
    assert row["records"] == [f"out/runs/{grid.in_turns()[1].key}"]


@pytest.mark.parametrize("more", [["--json"], [], ["--seed", ",".join(map(str, range(2000)))]])
def test_output_that_cannot_be_written_is_told_and_exits_1(tmp_path: Path, more: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "paceline", "study", "vae", "--steps", "2", "--dry-run", *more],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
        )
    assert finished.returncode == 1, finished.stderr
    assert "The output cannot be written (No space left on device): make room" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert "Exception ignored" not in finished.stderr


def test_a_dry_run_times_a_second_where_the_length_is_in_steps_or_epochs(tmp_path: Path) -> None:
    small = "vae:channels=2,hidden=8,samples=64"
    told = [small, "--workers", "1,2", "--workers-per-device", "2", "--batch", "2"]
    finished = study(*told, "--steps", "1000", "--dry-run", cwd=tmp_path)
    assert finished.stderr.count("timing vae") == 1
    assert re.search(r"expected time: .*\d", finished.stdout)
    expected = {
        length: json.loads(study(*told, *length.split(), "--dry-run", "--json", cwd=tmp_path).stdout)[
            "expected_seconds"
        ]["high"]
        for length in ("--steps 1", "--steps 100000", "--epochs 3125")
    }
    # How much follows from what is tested in tests/studies/test_probe.py; here, that a real probe was made at all.
    assert 0 < expected["--steps 1"] < expected["--steps 100000"] / 2
    assert 0 < expected["--steps 1"] < expected["--epochs 3125"] / 2
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_more_kinds_than_can_be_timed_says_how_the_time_will_be_known(tmp_path: Path) -> None:
    workloads = [f"vae:channels={n}" for n in range(1, 10)]
    (tmp_path / "many.toml").write_text(f"workload = {json.dumps(workloads)}\nsteps = 9\n")
    finished = study("many.toml", "--dry-run", cwd=tmp_path)
    assert "expected time: unknown" in finished.stdout
    assert "its first run shows the time" in finished.stdout
    as_json = json.loads(study("many.toml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert as_json["expected_seconds"] is None


def test_a_dry_run_shows_the_grid_and_the_time_and_writes_nothing(tmp_path: Path) -> None:
    small = "vae:channels=2,hidden=8,samples=64"
    told = [small, "--workers", "1,2", "--strategy", "allreduce", "--strategy", "ps", "--seconds", "10s", "--dry-run"]
    told += ["--batch", "8"]
    finished = study(*told, "--repeats", "2", cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    time = r"(\d+m\d\ds|\d+h\d\dm)"
    assert re.search(
        rf"10 runs, 10 of them still to do; expected time: (about {time}|{time} to {time})\.", finished.stdout
    )
    assert finished.stdout.count("not run") == 5
    as_json = json.loads(study(*told, "--json", cwd=tmp_path).stdout)
    assert (as_json["runs"], len(as_json["cells"])) == (5, 5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("more", "code"), [([], 2), (["--dry-run"], 0)])
def test_a_grid_of_100_000_runs_is_answered_at_once_and_not_begun(tmp_path: Path, more: list[str], code: int) -> None:
    seeds, rates = ",".join(map(str, range(500))), ",".join(f"0.{n:03}" for n in range(1, 101))
    begun = time.monotonic()
    finished = study("vae", "--seed", seeds, "--lr", rates, "--repeats", "2", "--seconds", "5s", *more, cwd=tmp_path)
    assert time.monotonic() - begun < 20
    assert finished.returncode == code, finished.stderr
    assert re.search(r"100,000 runs .* take \d+h\d\dm to \d+h\d\dm", finished.stdout + finished.stderr)
    assert "--yes" in finished.stdout + finished.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_grid_too_large_to_be_listed_is_told_as_json_too(tmp_path: Path) -> None:
    seeds = ",".join(map(str, range(1500)))
    finished = study("vae", "--seed", seeds, "--repeats", "2", "--seconds", "5s", "--dry-run", "--json", cwd=tmp_path)
    told = json.loads(finished.stdout)
    assert (told["study"], told["runs"], told["cells"]) == ("vae", 3000, None)
    assert told["expected_seconds"]["low"] < 3000 * 7 < told["expected_seconds"]["high"]
    assert "only with --yes" in told["notes"][0]


WRONG: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "Ready studies: demo, seed-000"),
    "an unknown name": (["seed-05"], "Did you mean 'seed-0"),
    "a missing file": (["nowhere.toml"], "cannot be read"),
    "malformed TOML": (["bad.toml"], "is not TOML"),
    "an empty file": (["empty.toml"], "needs a workload"),
    "an empty grid": (["hollow.toml"], "leaves the study without runs"),
    "an unknown key": (["key.toml"], "Did you mean 'workers'?"),
    "no length": (["vae"], "one of --steps, --epochs and --seconds"),
    "no number": (["vae", "--workers", "two"], "must be a whole number"),
    "an unknown strategy": (["vae", "--steps", "1", "--strategy", "al"], "not a known strategy"),
    "what cannot run": (["vae", "--steps", "1", "--workers", "1,4096"], "--skip-impossible"),
    "a batch that does not divide": (
        [
            "vae",
            "--steps",
            "1",
            "--workers",
            "1,3",
            "--workers-per-device",
            "fit",
            "--batch",
            "64",
            "--scaling",
            "strong",
        ],
        "batch = 64 in total cannot be divided among 3 workers",
    ),
    "a table nowhere": (["vae", "--steps", "1", "--csv", "nowhere/out.csv"], "--csv nowhere/out.csv cannot be written"),
    "a folder nowhere": (["vae", "--steps", "1", "--out", "/proc/nowhere"], "choose another folder"),
    "a folder in a file": (["vae", "--steps", "1", "--out", "bad.toml/below"], "choose another folder"),
    "a folder with other things": (
        ["vae", "--steps", "1", "--out", "."],
        "and no study: choose an empty or a new folder",
    ),
    "a date": (["date.toml"], "batch = 1979-05-27 is not valid"),
    "a word for a number": (["word.toml"], "--batch 'x' is not valid: it must be a whole number"),
    "a name that leads elsewhere": (["elsewhere.toml"], "--name '..' is not valid"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_request_exits_2_with_the_remedy_and_changes_nothing(what: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("workers = = 3")
    (tmp_path / "empty.toml").write_text("# nothing")
    (tmp_path / "hollow.toml").write_text('workload = "vae"\nworkers = []\n')
    (tmp_path / "date.toml").write_text('workload = "vae"\nsteps = 1\nbatch = 1979-05-27\n')
    (tmp_path / "word.toml").write_text('workload = "vae"\nequal = "samples"\nsamples = 64\nbatch = "x"\n')
    (tmp_path / "elsewhere.toml").write_text('name = ".."\nworkload = "vae"\nsteps = 1\n')
    (tmp_path / "key.toml").write_text('workload = "vae"\nworker = 1\nsteps = 1\n')
    before = sorted(tmp_path.rglob("*"))
    arguments, remedy = WRONG[what]
    finished = study(*arguments, cwd=tmp_path)
    assert finished.returncode == 2, finished.stderr
    assert remedy in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before


TABLE = StudyTable(
    title="tried: weak scaling, batch 8 per worker",
    headings=("strategy", "workers", "images/s (95 %)"),
    texts=[("bf16+allreduce:bucket=25MB", "1", "326.6 (323.1–328.9)"), ("ps", "2", "512 (505–520)")],
    values=[],
    numeric=(False, True, True),
    notes=["only 2 turns: the interval is wide."],
)


@pytest.mark.parametrize("width", [20, 40, 66, 200])
@pytest.mark.parametrize("terminal", [True, False])
def test_nothing_is_cut_however_narrow_the_terminal(
    width: int, terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(TABLE, Console(width=width, force_terminal=terminal, no_color=True, highlight=False))
    shown = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "…" not in shown
    assert not terminal or max(map(len, shown.splitlines())) <= width
    joined = re.sub(r"\s+", "", shown)
    for text in (TABLE.title, *TABLE.headings, *TABLE.notes, *(text for row in TABLE.texts for text in row)):
        assert re.sub(r"\s+", "", text) in joined


@pytest.fixture
def scratch() -> Iterator[str]:
    """A short folder for what killed processes leave among the temporary files."""
    with tempfile.TemporaryDirectory(prefix="k", ignore_cleanup_errors=True) as folder:
        yield folder


def started(cwd: Path, scratch: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "paceline", "study", *arguments],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=scratch),
        start_new_session=True,
    )


def test_ctrl_c_keeps_finished_runs_and_says_how_to_go_on(tmp_path: Path, scratch: str) -> None:
    slow = ["faulty:faulty:pause=0.05", "--workers", "1,2", "--steps", "60", "--validate", "epoch", "--out", "out"]
    process = started(tmp_path, scratch, *slow)
    assert process.stderr is not None
    for awaited in ("run 2 of 3", "validation loss"):
        while awaited not in process.stderr.readline():
            assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=40)
    assert process.returncode == 1
    assert "Stopped by the user. 1 of 3 runs are finished and saved." in said
    assert "Repeat the same command to resume the study." in said
    assert "Traceback" not in said
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 1
    assert not [p for p in Path(scratch).iterdir() if p.name.startswith("paceline-")]


def test_a_second_process_in_the_same_folder_is_refused(tmp_path: Path, scratch: str) -> None:
    slow = ["faulty:faulty:pause=0.05", "--steps", "1000", "--out", "out"]
    process = started(tmp_path, scratch, *slow)
    assert process.stderr is not None
    assert "run 1 of 2" in process.stderr.readline()
    try:
        second = study(*slow, cwd=tmp_path)
    finally:
        process.terminate()
        process.communicate(timeout=40)
    assert second.returncode == 2
    assert f"is in use by another `paceline study` (process {process.pid})" in second.stderr


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(family: list[psutil.Process]) -> None:
    """Orphans stay zombies where nobody waits for them, as in many containers."""
    until = time.monotonic() + 30
    while left := [p for p in family if lives(p)]:
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(0.05)


def finished_runs(folder: Path) -> dict[str, bytes]:
    return {p.parent.name: p.read_bytes() for p in folder.glob("runs/[!.]*/record.json")}


def resumed_after_kills(tmp_path: Path, scratch: str, arguments: list[str], kills: int, seed: int) -> None:
    """Kill it at random moments, itself or its whole group, then let it finish."""
    moments = random.Random(seed)
    done: dict[str, bytes] = {}
    family: list[psutil.Process] = []
    for number in range(kills):
        process = started(tmp_path, scratch, *arguments, "--out", "killed")
        time.sleep(moments.uniform(0.3, 3.5))
        try:
            family += [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            assert process.wait() == 0  # it was faster
        if number % 2:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.communicate(timeout=10)
        now = finished_runs(tmp_path / "killed")
        assert now.items() >= done.items(), "a finished run was lost or made again"
        done = now
    wait_until_gone(family)
    last = study(*arguments, "--out", "killed", cwd=tmp_path, TMPDIR=scratch)
    assert last.returncode == 0, last.stderr
    assert finished_runs(tmp_path / "killed").items() >= done.items()


def same(folder: Path) -> dict[str, dict[str, Any]]:
    """What two studies of the same grid must share, wherever and however often they were stopped."""
    assert not list(folder.glob("runs/.*"))
    assert not (folder / "damaged").exists()
    assert not (folder / "failed").exists()
    records = {p.name: Record.load(p) for p in (folder / "runs").iterdir()}
    return {key: {**record.spec.to_dict(), "samples": record.learning.samples_seen} for key, record in records.items()}


def test_killed_at_random_moments_it_ends_with_every_record_once(tmp_path: Path, scratch: str) -> None:
    arguments = ["faulty:faulty:pause=0.01", "--workers", "1,2", "--steps", "30"]
    planned = json.loads(study(*arguments, "--dry-run", "--json", cwd=tmp_path).stdout)
    resumed_after_kills(tmp_path, scratch, arguments, kills=2, seed=1)
    assert same(tmp_path / "killed").keys() == {f"{cell['key']}-turn0" for cell in planned["cells"]}


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_killed_twenty_times_it_ends_with_the_same_records_as_one_left_alone(tmp_path: Path, scratch: str) -> None:
    arguments = ["faulty:faulty:pause=0.01", "--workers", "1,2", "--steps", "40", "--repeats", "5"]
    arguments += ["--strategy", "allreduce", "--strategy", "ps"]
    resumed_after_kills(tmp_path, scratch, arguments, kills=20, seed=2)
    undisturbed = study(*arguments, "--out", "alone", cwd=tmp_path, TMPDIR=scratch)
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert same(tmp_path / "killed") == same(tmp_path / "alone")

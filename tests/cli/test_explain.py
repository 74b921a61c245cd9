"""`paceline explain` as a user meets it: answers, data, traces, refusals."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from explain.situations import USUAL, Situation, alone, write

from paceline.migrations import SCHEMA_VERSION


def explain(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "explain", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_run_is_explained_by_table_verdict_and_next_step(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", Situation(longer={1: {"backward": 0.050}}, noise=0.002))
    finished = explain(folder)
    assert finished.returncode == 0, finished.stderr
    for words in ("1 cpu:1", "backward", "Straggler: worker 1 (cpu:1) arrives", "Next: ", "Wall time"):
        assert words in finished.stdout
    assert explain(folder / "record.json").stdout == finished.stdout, "the file or its folder"


def test_data_holds_verdict_causes_gap_and_workers(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", Situation(longer={1: {"backward": 0.050}}, noise=0.002))
    data = json.loads(explain(folder, "--json").stdout)
    first = data["causes"][0]
    assert (first["name"], first["rank"]) == ("straggler", 1)
    assert first["seconds"] == pytest.approx(0.050, rel=0.1)
    assert first["sentence"].startswith("Straggler: worker 1")
    assert first["remedy"] == data["next"]
    assert data["gap"] is None
    assert [worker["rank"] for worker in data["per_worker"]] == [0, 1]
    assert sum(data["per_worker"][1]["phases"].values()) == pytest.approx(data["step_seconds"], rel=0.01)


def test_a_study_is_divided_setting_by_setting(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    write(tmp_path / "runs" / "a", alone())
    write(tmp_path / "runs" / "b", Situation(phases={**USUAL, "forward": 0.020, "exchange": 0.050}))
    finished = explain(tmp_path)
    assert finished.returncode == 0, finished.stderr
    for words in ("gap to ideal", "exposed communication", "slower compute", "100 %", "less than ideal"):
        assert words in finished.stdout
    gap = json.loads(explain(tmp_path, "--json").stdout)["settings"][1]["gap"]
    assert gap["components"]["compute"] == pytest.approx(-0.010)
    assert sum(gap["shares_percent"].values()) == 100


def test_a_trace_is_written_and_said_on_stderr(tmp_path: Path) -> None:
    folder, file = write(tmp_path / "run", Situation()), tmp_path / "trace.json"
    finished = explain(folder, "--trace", file, "--steps", "10-19", "--json")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["verdict"]
    assert "10 steps in" in finished.stderr
    assert json.loads(file.read_text())["traceEvents"]


def test_without_its_sidecar_a_record_is_explained_and_what_is_missing_said(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", Situation(longer={1: {"backward": 0.050}}), series=False)
    finished = explain(folder)
    assert "Straggler: worker 1" in finished.stdout
    assert "has no readable series.npz: this explanation uses the record alone" in finished.stdout
    traced = explain(folder, "--trace", tmp_path / "trace.json")
    assert (traced.returncode, traced.stderr.count("\n")) == (2, 1)


def test_a_run_that_was_stopped_is_explained_and_said_to_be(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", Situation(record={"failures": ["Stopped by the user before the end."]}))
    assert "Stopped by the user before the end." in explain(folder).stdout


def test_a_run_of_one_step_is_explained_without_judging_workers(tmp_path: Path) -> None:
    finished = explain(write(tmp_path / "run", Situation(steps=1, longer={1: {"backward": 0.1}})))
    assert finished.returncode == 0, finished.stderr
    assert "Only 1 step timed" in finished.stdout
    assert "Straggler" not in finished.stdout


def test_wrong_requests_are_answered_in_a_line_or_two(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", alone()), write(tmp_path / "two", Situation(environment={"host": "there"}))
    newer = tmp_path / "newer.json"
    content = json.loads((one / "record.json").read_text())
    newer.write_text(json.dumps({**content, "schema_version": SCHEMA_VERSION + 1}))
    failed = tmp_path / "failed"
    failed.mkdir()
    (failed / "failure.json").write_text('{"message": "Worker 1 was killed."}')
    wrong: dict[str, list[str | Path]] = {
        "does not exist": [tmp_path / "nowhere"],
        "neither record.json nor study.json": [tmp_path],
        f"schema version {SCHEMA_VERSION + 1}": [newer],
        "Worker 1 was killed": [failed],
        "--anyway": [one, two],
        "give one record": [one, two, "--anyway", "--trace", tmp_path / "trace.json"],
        "add --trace": [one, "--steps", "1-2"],
        "write A-B": [one, "--trace", tmp_path / "trace.json", "--steps", "all"],
    }
    for words, arguments in wrong.items():
        finished = explain(*arguments)
        assert (finished.returncode, finished.stdout) == (2, ""), words
        assert words in finished.stderr
        assert finished.stderr.count("\n") <= 2
        assert "Traceback" not in finished.stderr
    anyway = explain(one, two, "--anyway")
    assert anyway.returncode == 0
    assert "Compared on request, although the records differ in host: here / there" in anyway.stdout

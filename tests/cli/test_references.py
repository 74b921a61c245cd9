"""`paceline references` as a user meets it: tables, audits, exit codes, refusals."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from explain.situations import USUAL, Situation, alone, write

from paceline import references


def paceline(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "references", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def data(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(finished.stdout)
    return content


def test_list_has_a_line_for_each() -> None:
    finished = paceline("list")
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(references.names())
    assert [entry["name"] for entry in data(paceline("list", "--json"))["references"]] == list(references.names())


def test_show_has_the_table_its_source_and_what_is_wrong() -> None:
    finished = paceline("show", "seed-002")
    assert finished.returncode == 0, finished.stderr
    for words in ("Report 002", "GPU number", "Speedup ratio", "274,915.239", "360 per worker", "with warm-up"):
        assert words in finished.stdout
    assert "fault · window" in finished.stdout
    assert "The timed window of 20 steps" in finished.stdout


def test_show_as_data_has_derived_figures_beside_the_published_ones() -> None:
    row = data(paceline("show", "seed-004", "--json"))["series"][1]["rows"][-1]
    assert row["speedup"] == 13.69
    assert row["derived"]["speedup"] == pytest.approx(326.49 / 23.94)


def test_a_sound_table_ends_with_0_and_a_faulty_one_with_1() -> None:
    sound = paceline("check", "dgx1-p100", "gce-k80", "horovod-16")
    assert (sound.returncode, sound.stdout.count("nothing found")) == (0, 3), sound.stdout
    faulty = paceline("check", "seed-004", "dgx1-p100")
    assert faulty.returncode == 1
    assert "fault · bandwidth · Bert-base, 1 Gbps (picture)" in faulty.stdout
    assert faulty.stdout.splitlines()[-1].endswith("in 2 tables.")


def test_warnings_alone_are_no_reason_to_fail() -> None:
    finished = paceline("check", "seed-003", "--json")
    told = data(finished)
    assert (finished.returncode, told["faults"]) == (0, 0)
    assert told["warnings"] == len(told["tables"][0]["findings"]) == 2


def test_all_references_are_checked_by_default() -> None:
    finished = paceline("check", "--json")
    assert finished.returncode == 1
    assert [table["name"] for table in data(finished)["tables"]] == list(references.names())


def test_a_users_file_is_checked_and_findings_carry_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("np,images/s,speedup,mood\n1,100,1.0,good\n2,190,1.9,good\n4,350,3.9,good\n")
    finished = paceline("check", file, "--json")
    assert finished.returncode == 1
    (finding,) = data(finished)["tables"][0]["findings"]
    assert (finding["check"], finding["severity"]) == ("speed-up", "fault")
    assert finding["rows"] == [{"workers": 4, "throughput": 350.0, "speedup": 3.9, "line": 4}]
    assert (
        "Columns used: np (workers), images/s (throughput), speedup. Not used: mood." in paceline("check", file).stdout
    )


def test_names_in_a_users_file_are_text_and_no_markup(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("strategy,np,speedup,efficiency\n[red]x[/red],2,3.0,150%\ny,2,1.8,90%\n")
    assert "[red]x[/red]" in paceline("check", file).stdout


def test_a_study_and_a_record_are_checked_like_any_table(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    write(tmp_path / "runs" / "a", alone())
    write(tmp_path / "runs" / "b", Situation(phases={**USUAL, "exchange": 0.020}))
    study = paceline("check", tmp_path)
    assert study.returncode == 0, study.stdout + study.stderr
    assert "One turn only" in study.stdout
    assert paceline("check", tmp_path / "runs" / "a" / "record.json").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "seed-05"], "Did you mean 'seed-0"),
        (["check", "horovod"], "Or give a CSV file, a study's folder or a record."),
        (["check", "missing.csv"], "missing.csv cannot be read"),
        (["check", "missing.json"], "missing.json does not exist"),
    ],
)
def test_a_wrong_request_ends_with_2_and_a_remedy(arguments: list[str], words: str) -> None:
    finished = paceline(*arguments)
    assert finished.returncode == 2
    assert words in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("np,images/s\n1,100\n2,fast\n")
    finished = paceline("check", file)
    assert finished.returncode == 2
    assert "line 3: images/s 'fast' is not valid" in finished.stderr

"""What users named is printed as they wrote it: no emoji, no markup."""

import io
from pathlib import Path

import pytest
from explain.situations import Situation, alone, write
from typer.testing import CliRunner

from paceline.cli.main import app
from paceline.cli.output import print_summary
from paceline.cli.progress import BarDisplay
from paceline.cli.terminal import console
from paceline.record import Record
from paceline.spec import RunSpec

NAME = ":boom: [bold]b[/bold] [/]"
_RUNNER = CliRunner(env={"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb"})


def run(folder: Path) -> Path:
    """A run whose data, notes and failure have a name that Rich would read as emoji and markup."""
    source = {"name": "vae", "parameters": 10, "data": {"source": NAME, "generated": False}}
    record = {"workload": source, "warnings": [NAME], "failures": [f"{NAME} failed.\nTraceback\n  one\n  two"]}
    return write(folder, Situation(workers=2, record=record))


def test_a_summary_prints_names_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "run")
    print_summary(Record.load(folder), folder)
    printed = capsys.readouterr().out
    assert printed.count(NAME) == 3


def test_an_explanation_prints_names_as_they_are_and_a_failure_in_one_line(tmp_path: Path) -> None:
    folder = run(tmp_path / "run")
    printed = _RUNNER.invoke(app, ["explain", str(folder)]).stdout
    assert f"{NAME} failed. (the whole text is in {folder / 'record.json'})" in printed
    assert "Traceback" not in printed


def test_a_study_with_a_failed_run_is_explained_with_its_cause_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "one", alone())
    (tmp_path / "study.json").write_text('{"name": "s", "scaling": "weak"}')
    failed = tmp_path / "failed" / "two" / "failure.json"
    failed.parent.mkdir(parents=True)
    failed.write_text('{"error": "WorkerFailed", "message": "Worker 1 failed: bad.\\nTraceback\\n  File x"}')
    printed = _RUNNER.invoke(app, ["explain", str(tmp_path)]).stdout
    assert f"Worker 1 failed: bad. (the whole text is in {failed})" in printed
    assert "Traceback" not in printed


def test_a_progress_bar_shows_names_as_they_are() -> None:
    screen = console()
    screen.file, screen.width = io.StringIO(), 200
    display = BarDisplay(screen, NAME, RunSpec(workload="vae", steps=1))
    screen.print(display.bar.get_renderable())
    assert NAME in screen.file.getvalue()

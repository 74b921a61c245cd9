"""A run's summary says whose work kept a device busy."""

from pathlib import Path

import pytest
from explain.situations import Situation, write

from paceline.cli.output import print_summary
from paceline.record import Record


def test_the_summary_divides_a_busy_device_by_whose_work_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    half = 0.5 * 0.0995  # of a step
    folder = write(tmp_path / "run", Situation(cpu=half, outside_percent=40.0, stolen_percent=10.0))
    print_summary(Record.load(folder / "record.json"), folder)
    shown = capsys.readouterr()
    assert "cpu:0 90% (workers 50%, other machines 10%, other processes 30%)" in shown.out + shown.err

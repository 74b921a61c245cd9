"""The summary of a run on one screen."""

from pathlib import Path

import pytest
from complete import record_of

from paceline.cli.output import print_summary
from paceline.record_parts import PHASES


def test_waiting_for_a_straggler_is_not_counted_as_communication(capsys: pytest.CaptureFixture[str]) -> None:
    phases = {**dict.fromkeys(PHASES, 0.0), "forward": 0.6, "exchange": 0.1, "wait": 0.3}
    worker = {"rank": 0, "samples": 8, "seconds": 1.0, "step_seconds": 1.0, "phases": phases}
    overlap = {"busy": 0.7, "hidden": 0.3, "exposed": 0.4}
    print_summary(record_of({"per_worker": [worker], "overlap": overlap}), Path("runs"))
    assert "75% of the exchange overlapped with backward" in " ".join(capsys.readouterr().out.split())

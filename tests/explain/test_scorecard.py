"""The scorecard's short form: some of its situations, with long faults, and what counts as right, declined or wrong."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from explain.scorecard import SITUATIONS, Expected, Situation, Trial

ROOT = Path(__file__).parent.parent.parent
LONGER = 4
"""Faults are so many times as long as in the full form, so that other tests on the same cores matter little."""

SHORT = (
    "backward, one worker, every step",
    "optimizer, all workers, every step",
    "input, all workers, every step",
    "exchange, all workers, every step",
    "forward, one worker, every 4th step",
)


@pytest.mark.parametrize("name", SHORT)
def test_an_injected_fault_is_named_with_its_worker_its_time_and_advice_about_it(name: str) -> None:
    situation = next(one for one in SITUATIONS if one.name == name)
    faults = tuple(replace(fault, seconds=LONGER * fault.seconds) for fault in situation.faults)
    verdict = Trial(situation=replace(situation, faults=faults, steps=20), workers=2, loaded=True).verdict()
    assert verdict.result == "right", f"{verdict.reason}\n{verdict.said}"


def test_every_situation_is_declared_once_and_there_are_enough() -> None:
    names = [situation.name for situation in SITUATIONS]
    assert len(set(names)) == len(names) >= 16
    places = {fault.where for situation in SITUATIONS for fault in situation.faults}
    assert places == {"forward", "backward", "optimizer", "input", "exchange"}


CAUSE = {"name": "straggler", "rank": 1, "seconds": 0.040, "sentence": "Late.", "remedy": "Look at its forward."}
EXPECTED = Expected(name="straggler", ranks=(1,), advice="forward")


@pytest.mark.parametrize(
    ("causes", "seconds", "result"),
    [
        ([CAUSE], 0.040, "right"),
        ([CAUSE], 0.047, "right"),
        ([CAUSE], 0.060, "wrong"),
        ([{**CAUSE, "rank": 0}], 0.040, "wrong"),
        ([{**CAUSE, "remedy": "Stop other processes."}], 0.040, "wrong"),
        ([], 0.040, "declined"),
        ([CAUSE, {**CAUSE, "name": "input"}], 0.040, "wrong"),
        ([CAUSE, {**CAUSE, "name": "input", "seconds": 0.001}], 0.040, "right"),
        ([{**CAUSE, "name": "input"}], None, "wrong"),
    ],
)
def test_what_is_right_declined_and_wrong(causes: list[Any], seconds: float | None, result: str) -> None:
    told = {"step_seconds": 0.1, "gap": None, "verdict": "…", "next": "…", "causes": causes}
    judged = Trial(situation=Situation(name="one"), workers=2).judge(told, [(EXPECTED, seconds)])
    assert judged.result == result


def test_the_command_lists_the_situations_where_none_is_called_so() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "explain_scorecard.py"), "--only", "no such thing"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 1
    assert "a busy core" in answer.stderr

"""Verbs are listed without being imported, and every one that is listed can be loaded."""

import inspect
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from paceline.cli.main import app
from paceline.cli.verbs import VERBS, load


@pytest.mark.parametrize("name", VERBS)
def test_a_listed_verb_can_be_loaded_and_explains_itself(name: str) -> None:
    assert load(name).name == name
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"paceline {name}" in result.output
    first_line = inspect.cleandoc(load(name).help or "").splitlines()[0]
    assert first_line in " ".join(result.output.split())
    assert "install-completion" not in result.output


def test_the_help_has_every_verb_with_its_summary_on_one_line() -> None:
    lines = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output.splitlines()
    listed = [line.split(maxsplit=1) for line in lines[lines.index("Commands:") + 1 : -2]]
    assert listed == [[name, verb.summary] for name, verb in VERBS.items()]


def test_a_misspelt_verb_exits_2_and_names_the_nearest_one() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "paceline", "trian"], capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.returncode == 2
    assert "No such command 'trian'. Did you mean 'train'?" in finished.stderr
    assert "Traceback" not in finished.stderr

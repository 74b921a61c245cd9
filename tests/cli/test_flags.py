"""Flags of `train` and `study` come from the declared settings: names, help, panels and what they accept."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from paceline.cli.flags import repeated, single, with_flags
from paceline.cli.study import study
from paceline.cli.train import train
from paceline.settings import Baseline, Role, Seconds, setting, settings_of
from paceline.spec import SETTINGS, with_role
from paceline.studies.definition import STUDY_SETTINGS


def options(verb: Callable[..., None]) -> dict[str, Any]:
    """The options of a verb as the command line knows them, by flag."""
    app = typer.Typer(add_completion=False)
    app.command()(verb)
    return {flag: option for option in typer.main.get_command(app).params for flag in option.opts}


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.from_flag])
def test_every_setting_is_a_flag_of_train_with_its_help_and_panel(name: str) -> None:
    option = options(train)[SETTINGS[name].flag]
    assert option.help.startswith(SETTINGS[name].help.rstrip("."))
    assert option.rich_help_panel == SETTINGS[name].group
    assert option.default is None, "what was not typed keeps the declared default"


@pytest.mark.parametrize("name", [name for name in with_role(Role.AXIS) if name != "workload"])
def test_every_axis_is_a_flag_of_study_that_may_be_repeated(name: str) -> None:
    option = options(study)[SETTINGS[name].flag]
    assert option.help == (SETTINGS[name].axis_help or SETTINGS[name].help)
    assert option.multiple


@pytest.mark.parametrize("name", STUDY_SETTINGS)
def test_every_setting_of_a_study_itself_is_a_flag_with_its_help_and_panel(name: str) -> None:
    option = options(study)[STUDY_SETTINGS[name].flag]
    assert option.help.startswith(STUDY_SETTINGS[name].help.rstrip("."))
    assert option.rich_help_panel == STUDY_SETTINGS[name].group
    assert option.is_flag == (name == "per_epoch")


def test_no_other_setting_is_a_flag() -> None:
    flags = {SETTINGS[name].flag for name in SETTINGS}
    no_axes = {SETTINGS[name].flag for name in SETTINGS if not SETTINGS[name].has(Role.AXIS)}
    assert flags - options(train).keys() == {"--workload", "--turn", "--variant"}
    assert no_axes & options(study).keys() == {"--variant"}  # which chooses among a study's variants, and sets nothing
    assert "--checkpoint-every" in no_axes


def declared(default: Any = None, **details: Any) -> Any:
    usual = {"help": "Of the test.", "group": "Test", "roles": (Role.IDENTITY,), "baseline": Baseline.ANY}
    return setting(default, **{**usual, **details})


FIELDS = [("knots", int, declared(3)), ("delay", Seconds | None, declared()), ("loud", bool, declared(False))]
FURTHER = settings_of(dataclasses.make_dataclass("Further", FIELDS))
"""Settings that no verb of Paceline has."""


def answer(make: Callable[..., Any], *arguments: str) -> Any:
    """What a verb with these settings as flags is called with, or its help."""
    seen: list[Any] = []

    @with_flags({name: make(one) for name, one in FURTHER.items()})
    def verb(what: Annotated[str, typer.Argument()], *, out: str = "here", **flags: Any) -> None:
        seen.append((what, out, flags))

    app = typer.Typer(add_completion=False)
    app.command()(verb)
    finished = CliRunner().invoke(app, arguments, env={"COLUMNS": "100", "TERM": "dumb"})
    assert finished.exit_code == 0, finished.output
    return seen[0] if seen else finished.output


def test_a_setting_needs_only_its_declaration_to_become_a_flag() -> None:
    typed = answer(single, "vae", "--knots", "4", "--loud", "on", "--out", "there")
    assert typed == ("vae", "there", {"knots": "4", "loud": "on", "delay": None})
    typed = answer(repeated, "vae", "--knots", "4,5", "--knots", "6")
    assert typed == ("vae", "here", {"knots": ["4,5", "6"], "loud": None, "delay": None})


def test_the_help_shows_what_a_flag_takes_and_its_default() -> None:
    lines = [" ".join(line.split()) for line in answer(single, "--help").splitlines()]
    for words in (
        "--knots N Of the test (default: 3).",
        "--delay TIME Of the test.",
        "--loud on|off Of the test (defau",
    ):
        assert any(words in line for line in lines), lines
    assert "--knots N,…" in " ".join(answer(repeated, "--help").split())

"""The verbs of the command line; each is imported only when it is used."""

import importlib
from typing import Any, NamedTuple

import typer
import typer.core
import typer.main


class Verb(NamedTuple):
    """Where a verb is defined, and the line that `paceline --help` shows for it."""

    address: str
    """`module:name` of a function, or of a Typer application where a verb needs settings or has verbs of its own."""
    summary: str


VERBS = {
    "train": Verb("paceline.cli.train:train", "Train a workload with one or more workers and record the run."),
    "study": Verb("paceline.cli.study:study", "Run a grid of settings in turns and show how they scale."),
    "noise": Verb("paceline.cli.noise:noise", "Measure how large a difference this machine can show."),
    "testbed": Verb("paceline.cli.testbed:app", "Train or study on several hosts emulated on this machine."),
    "explain": Verb("paceline.cli.explain:explain", "Explain where the time of a run or a study went."),
    "project": Verb("paceline.cli.project:project", "Predict the throughput of more workers or another network."),
    "report": Verb("paceline.cli.report:report", "Write a self-contained page about runs and studies."),
    "profile": Verb("paceline.cli.profile:profile", "Measure how long a device takes for each part of a step."),
    "references": Verb("paceline.cli.references:app", "Show published tables, and audit any table."),
    "workloads": Verb("paceline.cli.catalogues:workloads", "List the workloads, their sizes and options."),
    "strategies": Verb("paceline.cli.catalogues:strategies", "List the strategies and their options."),
    "feeds": Verb("paceline.cli.catalogues:feeds", "List the feeds and their options."),
    "doctor": Verb("paceline.cli.doctor:doctor", "Show what this machine offers and what is missing."),
}


class VerbGroup(typer.core.TyperGroup):
    """A group that lists its verbs without importing them.

    `commands` holds only names and summaries; `get_command` imports the verb.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, verb in VERBS.items():
            self.add_command(typer.core.TyperCommand(name, help=verb.summary))

    def get_command(self, ctx: Any, cmd_name: str) -> typer.core.TyperCommand | typer.core.TyperGroup | None:
        return load(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


def load(name: str) -> typer.core.TyperCommand | typer.core.TyperGroup:
    """Import a verb and make its command."""
    module, _, attribute = VERBS[name].address.partition(":")
    verb = getattr(importlib.import_module(module), attribute)
    if not isinstance(verb, typer.Typer):
        function, verb = verb, typer.Typer(add_completion=False, rich_markup_mode="rich")
        verb.command(name)(function)
    command = typer.main.get_command(verb)
    assert isinstance(command, typer.core.TyperCommand | typer.core.TyperGroup)
    command.name = name
    return command

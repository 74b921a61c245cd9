"""Flags made from declared settings: one value each for `train`, lists of values for `study`."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from paceline.settings import Names, Seconds, Setting, written

Command = Callable[..., None]

_NUMBERS: Mapping[Any, str] = {int: "N", float: "X", Seconds: "TIME"}
"""The placeholder in the help for each type of number; a study takes several values, separated by commas."""

_WORDS: Mapping[Any, str] = {bool: "on|off", Names: "NAME,…"}


def with_flags(parameters: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Replace a verb's `**flags` by flags (name → annotated type and default), after its own parameters."""

    def decorate(verb: Command) -> Command:
        signature = inspect.signature(verb)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        kind = inspect.Parameter.KEYWORD_ONLY
        flags = [
            inspect.Parameter(name, kind, default=default, annotation=annotation)
            for name, (annotation, default) in parameters.items()
        ]
        first = [p for p in own if p.kind is not kind]
        last = [p for p in own if p.kind is kind]
        verb.__signature__ = signature.replace(parameters=[*first, *flags, *last])  # type: ignore[attr-defined]
        verb.__annotations__ |= {name: annotation for name, (annotation, _) in parameters.items()}
        verb.__annotations__.pop("flags", None)
        return verb

    return decorate


def single(setting: Setting) -> tuple[Any, Any]:
    """A flag with one value, as text: `Setting.parse` reads it, so that a wrong value is refused by the setting's rule.

    None means that the user did not give it; the setting's declaration holds the default.
    """
    implicit = setting.default in (None, (), dataclasses.MISSING) or "(default" in setting.help
    shown = "" if implicit else f" (default: {written(setting.default)})"
    text = setting.help.rstrip(".") + shown + "."
    option = typer.Option(setting.flag, help=text, metavar=_metavar(setting), rich_help_panel=setting.group)
    return Annotated[str | None, option], None


def switch(setting: Setting) -> tuple[Any, Any]:
    """A flag without a value that turns a setting on."""
    option = typer.Option(setting.flag, help=setting.help, rich_help_panel=setting.group)
    return Annotated[bool, option], False


def repeated(setting: Setting) -> tuple[Any, Any]:
    """A flag that may be repeated; each time it takes one value or, for numbers, a list."""
    text = setting.axis_help or setting.help
    metavar = _metavar(setting) + (",…" if setting.type in _NUMBERS else "")
    option = typer.Option(setting.flag, help=text, metavar=metavar, rich_help_panel=setting.group)
    return Annotated[list[str] | None, option], None


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join(setting.choices)
    return {**_NUMBERS, **_WORDS}.get(setting.type, "TEXT")

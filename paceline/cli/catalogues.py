"""`paceline workloads`, `strategies` and `feeds`: list the entries of each catalogue with their options."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from collections.abc import Iterable
from typing import Any, Literal

from paceline.grammar import Bytes


def workloads() -> None:
    """List the workloads, their sizes and options."""
    from paceline.workloads.catalogue import WORKLOADS

    rows = [
        (name, f"{entry.parameters:,} parameters, counts {entry.unit}; {entry.summary}", entry.options)
        for name, entry in WORKLOADS.items()
    ]
    _print("workload", rows)
    print("To use your own, give package.module:function that returns a paceline.Workload: docs/your-own-workload.md.")


def strategies() -> None:
    """List the strategies and their options."""
    from rich.table import Table

    from paceline.cli.terminal import console
    from paceline.traffic.catalogue import MEMBERS
    from paceline.traffic.combinations import combinations
    from paceline.traffic.members import KINDS

    for kind, title in zip(KINDS, ("schedule", "codec", "transport"), strict=True):
        members = [(name, member) for name, member in MEMBERS.items() if member.kind == kind]
        _print(title, [(name, member.summary, member.claim) for name, member in members])
    heading, *rows = combinations()
    table = Table(*heading, title="Which parts combine, as in bf16+allreduce")
    for row in rows:
        table.add_row(*row)
    console(markup=True).print(table)
    print("By default workers exchange gradients in every step; see docs/choose-a-strategy.md.")


def feeds() -> None:
    """List the feeds and their options."""
    from paceline.feeds.catalogue import FEEDS

    _print("feed", [(name, entry.summary, entry.options) for name, entry in FEEDS.items()])


def _print(what: str, rows: Iterable[tuple[str, str, type[Any]]]) -> None:
    from rich.table import Table

    from paceline.cli.terminal import console

    table = Table(show_lines=True)
    for heading in (what, "what it is", "options (default)"):
        table.add_column(heading)
    for name, summary, options in rows:
        table.add_row(name, summary, "\n".join(_options(options)) or "none")
    console(markup=True).print(table)


def _options(options: type[Any]) -> Iterable[str]:
    hints = typing.get_type_hints(options)
    meanings = _meanings(options)
    for option in dataclasses.fields(options):
        default = "" if option.default is None else f" ({_default(option.default)})"
        meaning = f": {meanings[option.name]}" if option.name in meanings else ""
        yield f"[bold]{option.name}[/bold]={_values(hints[option.name])}{default}{meaning}"


def _meanings(options: type[Any]) -> dict[str, str]:
    """The docstring under each field of a dataclass, by the field's name."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for field, below in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            texts[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return texts


def _values(annotation: Any) -> str:
    kinds = [k for k in typing.get_args(annotation) or (annotation,) if k is not type(None)]
    if typing.get_origin(annotation) is Literal:
        return "|".join(map(str, kinds))
    kind = kinds[0]
    if typing.get_origin(kind) is Literal:
        return "|".join(typing.get_args(kind))
    return {bool: "on|off", int: "N", float: "X", Bytes: "BYTES"}.get(kind, "TEXT")


def _default(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)

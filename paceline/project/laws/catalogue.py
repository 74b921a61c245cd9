"""All laws that are fitted to a table. A new law is one file and one line here."""

from collections.abc import Callable, Iterable

from paceline.project.laws import assumed_nodes, flat, nodes
from paceline.project.laws.base import Law, Scope

Members = Callable[[Scope], Iterable[Law]]
"""The variants of one law that apply to a table; empty where it does not apply."""

LAWS: dict[str, Members] = {
    "nodes": nodes.members,
    "flat": flat.members,
    "assumed_nodes": assumed_nodes.members,
}


def family(scope: Scope) -> tuple[Law, ...]:
    """All variants of all laws that apply to a table."""
    return tuple(law for members in LAWS.values() for law in members(scope))

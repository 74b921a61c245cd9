"""Which parts can be combined, according to the catalogue itself."""

from collections.abc import Iterator, Mapping

from paceline.errors import SpecError
from paceline.traffic.catalogue import MEMBERS
from paceline.traffic.members import Member
from paceline.traffic.resolved import ChosenMember, ResolvedStrategy

PLAIN = "transport only"
ALONE = "alone"


def combinations(members: Mapping[str, Member] = MEMBERS) -> tuple[tuple[str, ...], ...]:
    """A table with a row for every part that may precede a transport, and a column for every transport."""
    transports = [name for name, member in members.items() if member.kind == "transport"]
    outer = [name for name, member in members.items() if member.kind != "transport"]
    rows = [("", ALONE, *(f"+{name}" for name in transports))]
    rows.append((PLAIN, "", *(_cell(members, name) for name in transports)))
    rows += [(name, _cell(members, name), *(_cell(members, name, how) for how in transports)) for name in outer]
    return tuple(rows)


def as_markdown(rows: tuple[tuple[str, ...], ...]) -> str:
    """The table as Markdown, for the documentation."""
    return "\n".join(_lines(rows))


def _lines(rows: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    heading, *others = rows
    yield f"| {' | '.join(_code(name) for name in heading)} |"
    yield f"|{'---|' * len(heading)}"
    for name, *cells in others:
        yield f"| {_code(name)} | {' | '.join(cells)} |"


def _code(name: str) -> str:
    return name if name in ("", ALONE, PLAIN) else f"`{name}`"


def _cell(members: Mapping[str, Member], *names: str) -> str:
    chosen = tuple(ChosenMember(name, members[name], members[name].claim()) for name in names)
    try:
        strategy = ResolvedStrategy(chosen)
    except SpecError:
        return "no"
    return strategy.transport.coded if strategy.codec is not None and strategy.transport is not None else "yes"

"""The strategies by name: their options and what they send. The right-hand side of Paceline needs no more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline import grammar
from paceline.errors import SpecError
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.base import Traffic
from paceline.traffic.independent import Independent
from paceline.traffic.ps import ParameterServer


@dataclass(frozen=True)
class Entry:
    """The options of a strategy and what to say about it."""

    options: type[Any]
    summary: str
    wraps: bool = False
    """Whether it wraps the next strategy of a chain."""


STRATEGIES: Mapping[str, Entry] = {
    "independent": Entry(Independent, "every worker trains alone; the upper bound of throughput"),
    "allreduce": Entry(AllReduce, "gradients are averaged over all workers while backward goes on"),
    "ps": Entry(ParameterServer, "servers hold the parameters; workers push gradients and get parameters back"),
}


def resolve(text: str) -> Traffic:
    """The strategy that `text` names, its options checked.

    A chain is written outermost first, `a:…+b:…`: every part but the last must wrap the one after it.
    """
    parts = grammar.parse_chain(text, "strategy")
    for part in parts:
        grammar.choose(part.name, STRATEGIES, "strategy")
    *outer, innermost = parts
    for part in outer:
        if not STRATEGIES[part.name].wraps:
            wrappers = ", ".join(name for name, entry in STRATEGIES.items() if entry.wraps) or "none yet"
            raise SpecError(
                f"{part.name!r} cannot stand before '+' in {text!r}: it wraps no other strategy. Wrappers: {wrappers}."
            )
    traffic: Traffic = grammar.bind(innermost, STRATEGIES[innermost.name].options, "strategy")
    return traffic


def check(text: str) -> str:
    """The strategy as it will be written in records; refused when it cannot exist."""
    return grammar.write(text.partition(":")[0].strip(), resolve(text))

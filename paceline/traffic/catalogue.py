"""The parts of strategies by name, and the strategies that chains of them form. Does not import torch."""

import importlib
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline import grammar
from paceline.errors import SpecError
from paceline.migrations import migrated_strategy
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.bf16 import Bf16
from paceline.traffic.fp16 import Fp16
from paceline.traffic.independent import Independent
from paceline.traffic.members import KINDS, Member
from paceline.traffic.ps import ParameterServer
from paceline.traffic.resolved import ChosenMember, ResolvedStrategy

MEMBERS: Mapping[str, Member] = {
    "independent": Member(
        "schedule",
        Independent,
        "every worker trains alone; the upper bound of throughput",
        "paceline.strategies.independent:IndependentStrategy",
    ),
    "bf16": Member(
        "codec", Bf16, "gradients in transit as bfloat16: half the bytes", "paceline.strategies.bf16:Bf16Codec"
    ),
    "fp16": Member(
        "codec", Fp16, "gradients in transit as float16: half the bytes", "paceline.strategies.fp16:Fp16Codec"
    ),
    "allreduce": Member(
        "transport",
        AllReduce,
        "gradients are averaged over all workers, overlapped with backward",
        "paceline.strategies.allreduce:AllReduceStrategy",
    ),
    "ps": Member(
        "transport",
        ParameterServer,
        "servers hold the parameters; workers push gradients and get parameters back",
        "paceline.strategies.ps.strategy:ParameterServerStrategy",
    ),
}


def resolve(text: str) -> ResolvedStrategy:
    """The strategy that `text` names; checks its options and the combination.

    A chain is written as schedule+codec+transport, where parts may be left out: `bf16+allreduce`.
    """
    if (today := migrated_strategy(text)) != text:
        raise SpecError(f"{text!r} is an old spelling: the format in transit is now a separate part; write {today!r}.")
    chosen = [_chosen(part) for part in grammar.parse_chain(text, "strategy")]
    _refuse_order(chosen)
    return ResolvedStrategy(tuple(chosen))


def resolve_member(text: str) -> ChosenMember:
    """One part of a chain by itself; checks its options."""
    return _chosen(grammar.parse(text, "strategy"))


def check(text: str) -> str:
    """The strategy as records spell it; refuses an invalid one."""
    return str(resolve(text))


def exchanges(text: str) -> bool:
    """Whether replicas of this strategy ever synchronise; otherwise each trains alone.

    A strategy that never synchronises has one part only, so a chain needs no further check and no import of user code.
    """
    return "+" in text or resolve(text).exchanges


def with_codec(strategy: ResolvedStrategy, name: str) -> ResolvedStrategy | None:
    """The same strategy with a codec of the catalogue; None if it has one already, or sends nothing."""
    return strategy.with_codec(name, MEMBERS[name])


def _chosen(part: grammar.Part) -> ChosenMember:
    member = _users_own(part.name) if ":" in part.name else MEMBERS[grammar.choose(part.name, MEMBERS, "strategy")]
    return ChosenMember(part.name, member, grammar.bind(part, member.claim, "strategy"))


def _users_own(address: str) -> Member:
    """A user-defined part, `package.module:NAME`, where NAME is a `paceline.traffic.members.Member`."""
    module, _, name = address.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        member = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        valid = ", ".join(MEMBERS)
        raise SpecError(
            f"There is no module {error.name!r} for strategy {address!r}: run from its folder, or install it; "
            f"or use one of {valid}."
        ) from error
    except AttributeError:
        raise SpecError(f"The module {module!r} has no {name!r} for strategy {address!r}: check the name.") from None
    if not isinstance(member, Member):
        raise SpecError(f"{address} is a {type(member).__name__}, not a paceline.traffic.members.Member: make it one.")
    return member


def _refuse_order(chosen: Sequence[ChosenMember]) -> None:
    for first, second in itertools.pairwise(chosen):
        if first.member.kind == second.member.kind:
            raise SpecError(f"{first.name} and {second.name} are both a {first.member.kind}: keep one of them.")
        if KINDS.index(first.member.kind) > KINDS.index(second.member.kind):
            ordered = "+".join(str(part) for part in sorted(chosen, key=lambda part: KINDS.index(part.member.kind)))
            raise SpecError(
                f"{first.name}, a {first.member.kind}, is before {second.name}, a "
                f"{second.member.kind}: the order is schedule+codec+transport; write {ordered}."
            )

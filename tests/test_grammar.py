"""How names with options are read and written."""

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from paceline import grammar
from paceline.errors import SpecError
from paceline.feeds.catalogue import FEEDS
from paceline.grammar import Bytes, Part, bind, bind_call, choose, parse, parse_chain, write
from paceline.traffic.catalogue import MEMBERS
from paceline.workloads.catalogue import WORKLOADS

KILOBYTE = Bytes(1000)


@dataclass(frozen=True, kw_only=True)
class Options:
    count: int = 3
    rate: float = 0.5
    fast: bool = False
    kind: Literal["plain", "fancy"] = "plain"
    size: Bytes = KILOBYTE
    limit: int | None = None
    maybe: bool | None = None
    place: str = "here"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("vae", Part("vae")),
        (" vae ", Part("vae")),
        ("vae:", Part("vae")),
        ("vae:samples=5", Part("vae", {"samples": "5"})),
        ("vae:samples=5,data=mnist", Part("vae", {"samples": "5", "data": "mnist"})),
        ("vae:samples=5,", Part("vae", {"samples": "5"})),
        ("vae:path=a:b", Part("vae", {"path": "a:b"})),
        ("vae:rule=a=b", Part("vae", {"rule": "a=b"})),
        ("package.module:function", Part("package.module:function")),
        ("package.module:function:", Part("package.module:function")),
        ("package.module:function:key=value", Part("package.module:function", {"key": "value"})),
        ("module:function:key=a:b,other=2", Part("module:function", {"key": "a:b", "other": "2"})),
    ],
)
def test_a_part_is_read_into_name_and_options(text: str, part: Part) -> None:
    assert parse(text, "workload") == part
    assert parse(str(part), "workload") == part


@pytest.mark.parametrize("text", ["", "  ", ":", ":function", ":key=value"])
def test_a_part_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(text, "workload")
    assert f"{text!r} is not a workload: it has no name" in str(refused.value)
    assert "name:key=value" in str(refused.value)


@pytest.mark.parametrize("text", ["bert-base:large", "my module:function", "module:a b", "vae:,,", "module::key=value"])
def test_a_part_that_is_neither_a_name_nor_an_address_is_refused(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(text, "workload")
    assert f"{text!r} is not a workload: write name:key=value,key=value" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "item"), [("a:x=1,y", "y"), ("a:x=", "x="), ("a:=1", "=1"), ("a.b:f:x", "x"), ("a:x=1,=", "=")]
)
def test_an_option_without_key_or_value_is_named(text: str, item: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(text, "workload")
    assert f"{item!r} in {text!r} is not an option: write key=value" in str(refused.value)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(SpecError, match=r"'x' is given twice in 'a:x=1,y=2,x=1': keep one"):
        parse("a:x=1,y=2,x=1", "feed")


def test_a_chain_is_read_outermost_first() -> None:
    chain = parse_chain("local:every=16 + powersgd:rank=4+allreduce", "strategy")
    assert chain == (Part("local", {"every": "16"}), Part("powersgd", {"rank": "4"}), Part("allreduce"))
    for text in ("a+", "+a", "a++b"):
        with pytest.raises(SpecError, match="no name"):
            parse_chain(text, "strategy")


def test_an_unknown_name_is_refused_with_the_valid_ones_and_the_nearest() -> None:
    assert choose("sync", ("sync", "async"), "mode") == "sync"
    with pytest.raises(SpecError) as refused:
        choose("asinc", ("sync", "async", "stale"), "mode")
    assert str(refused.value) == "'asinc' is not a known mode. Did you mean 'async'? Valid: sync, async, stale."
    with pytest.raises(SpecError) as refused:
        choose("zzz", ("sync", "async"), "mode")
    assert str(refused.value) == "'zzz' is not a known mode. Valid: sync, async."
    with pytest.raises(SpecError, match="Valid: none"):
        choose("x", (), "option")


def test_options_become_values_of_their_types() -> None:
    text = "it:count=7,rate=1e-3,fast=on,kind=fancy,size=2MB,limit=9,maybe=off,place=a:b"
    bound = bind(parse(text, "thing"), Options, "thing")
    expected = Options(
        count=7, rate=1e-3, fast=True, kind="fancy", size=Bytes(2_000_000), limit=9, maybe=False, place="a:b"
    )
    assert bound == expected
    assert parse(write("it", bound), "thing").name == "it"
    assert bind(parse(write("it", bound), "thing"), Options, "thing") == bound


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert write("it", Options()) == "it"
    assert write("it", Options(size=Bytes(2**20), fast=True)) == "it:fast=on,size=1048576B"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("cuont=3", ["'cuont' is not a known option of thing it", "Did you mean 'count'?", "Valid: count, rate, fast"]),
        ("count=2.5", ["thing it: count=2.5", "'2.5' is not a whole number"]),
        ("rate=high", ["thing it: rate=high", "'high' is not a number"]),
        ("fast=yes", ["thing it: fast=yes", "'yes'", "Valid: on, off"]),
        ("kind=fansy", ["thing it: kind=fansy", "Did you mean 'fancy'?", "Valid: plain, fancy"]),
        ("size=big", ["'big' is not an amount of bytes", "25MB"]),
    ],
)
def test_a_wrong_option_is_refused_with_value_rule_and_valid_ones(option: str, said: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        bind(parse(f"it:{option}", "thing"), Options, "thing")
    assert all(words in str(refused.value) for words in said), str(refused.value)


CATALOGUES = {
    f"{what} {name}": (name, options)
    for what, catalogue in (
        ("workload", {name: entry.options for name, entry in WORKLOADS.items()}),
        ("strategy", {name: member.claim for name, member in MEMBERS.items()}),
        ("feed", {name: entry.options for name, entry in FEEDS.items()}),
    )
    for name, options in catalogue.items()
}
CLASSIFIERS = ("resnet18", "resnet50", "resnet101", "resnet152", "vgg16")
# Values that an option may have only together with another one.
COMPANIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("ps", "bound"): {"mode": "stale"},
    ("synthetic", "prefetch"): {"at": "host"},
    ("synthetic", "loaders"): {"at": "python"},
    ("bert-base", "units"): {"heads": 1},
    ("bert-base", "heads"): {"units": 780},
    **{(name, "parameters"): {"tensors": 1} for name in CLASSIFIERS},
    **{(name, "tensors"): {"parameters": 1000} for name in CLASSIFIERS},
}


def other_values(annotation: Any, default: Any) -> list[Any]:
    """Values of an option that are not its default."""
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = typing.get_args(annotation) if is_union else (annotation,)
    (kind,) = (k for k in kinds if k is not type(None))
    if typing.get_origin(kind) is Literal:
        return [value for value in typing.get_args(kind) if value != default]
    if kind is bool:
        return [value for value in (True, False) if value is not default]
    if kind is float:
        return [0.25, 1e-07]
    return [(default or 0) + 1, (default or 0) + 40]


@pytest.mark.parametrize("entry", CATALOGUES)
def test_every_option_of_every_catalogue_is_read_back_as_it_was_written(entry: str) -> None:
    name, options = CATALOGUES[entry]
    assert bind(Part(name), options, "thing") == options()
    assert write(name, options()) == name
    hints = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        values = other_values(hints[field.name], field.default)
        assert values, field.name
        for value in values:
            changed = options(**{field.name: value}, **COMPANIONS.get((name, field.name), {}))
            text = write(name, changed)
            assert f"{field.name}=" in text
            assert bind(parse(text, "thing"), options, "thing") == changed, text


def test_a_resolved_default_is_written_so_that_records_show_it() -> None:
    options = MEMBERS["ps"].claim
    assert write("ps", options(mode="stale")) == "ps:mode=stale,bound=3"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def users_own(  # type: ignore[no-untyped-def]
    width: int,
    rate: float = 0.1,
    deep: bool = False,
    kind: Literal["a", "b"] = "a",
    limit: int | None = None,
    memory: Bytes = KILOBYTE,
    folder: Path = Path("data"),
    colour: Colour = Colour.RED,
    *args: int,
    plain=7,
    unset=None,
    **more: int,
) -> "NotImportedHere":  # type: ignore[name-defined]  # noqa: F821  # as users may write it
    return None


def test_a_users_function_gets_values_of_its_annotations_or_defaults() -> None:
    text = "m:f:width=3,rate=2,deep=on,kind=b,limit=4,memory=2KB,folder=x/y,colour=blue,plain=8,unset=text"
    values = bind_call(parse(text, "workload"), users_own)
    assert values == {
        "width": 3,
        "rate": 2.0,
        "deep": True,
        "kind": "b",
        "limit": 4,
        "memory": 2000,
        "folder": Path("x/y"),
        "colour": Colour.BLUE,
        "plain": 8,
        "unset": "text",
    }
    assert isinstance(values["rate"], float)


def test_a_partial_and_a_class_are_called_like_functions() -> None:
    assert bind_call(parse("m:f:rate=3", "workload"), functools.partial(users_own, width=2)) == {"rate": 3.0}
    assert bind_call(parse("m:C:count=4", "workload"), Options) == {"count": 4}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("m:f:width=3,witdh=4", ["'witdh' is not a known option of m:f", "Did you mean 'width'?"]),
        ("m:f:width=3,more=1", ["'more'", "Valid: width, rate"]),
        ("m:f:width=3,args=1", ["'args'", "Valid: width, rate"]),
        ("m:f:width=wide", ["m:f: width=wide", "not a whole number"]),
        ("m:f:width=1,colour=green", ["colour=green", "'green' is not a Colour"]),
        ("m:f:rate=1", ["m:f needs a value for width: write m:f:width=…"]),
        ("m:f", ["m:f needs a value for width"]),
    ],
)
def test_a_wrong_option_of_a_users_function_is_refused(text: str, said: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        bind_call(parse(text, "workload"), users_own)
    assert all(words in str(refused.value) for words in said), str(refused.value)


def test_an_option_whose_type_cannot_be_read_from_a_word_is_refused() -> None:
    def several(  # type: ignore[no-untyped-def]
        either: int | str = 1,
        many: list[int] = [],  # noqa: B006
        pair=(1, 2),
        anything: Any = 0,
    ) -> None:
        pass

    for option in ("either", "many", "pair", "anything"):
        with pytest.raises(SpecError, match=f"m:f: {option}=1 "):
            bind_call(parse(f"m:f:{option}=1", "workload"), several)


def test_require_refuses_only_what_does_not_hold() -> None:
    grammar.require(True, "fine")
    with pytest.raises(SpecError, match=r"^not fine$"):
        grammar.require(False, "not fine")

"""How names with options are written everywhere: `name:key=value,key=value`, chains outermost first with `+`."""

import dataclasses
import difflib
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from paceline import units
from paceline.errors import SpecError

Bytes = typing.NewType("Bytes", int)
"""An option that counts bytes; written `25MB`."""

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One `name:key=value,…`, as written: names and values are not checked yet."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return _join(self.name, self.options)


def parse(text: str, what: str) -> Part:
    """One part. A user's `package.module:function` keeps its colon in the name."""
    name, _, rest = text.strip().partition(":")
    if not name:
        raise SpecError(f"{text!r} is not a {what}: it has no name; write name:key=value,key=value.")
    if rest and "=" not in rest.split(":")[0]:
        function, _, rest = rest.partition(":")
        if not re.fullmatch(r"[\w.]+:[\w.]+", f"{name}:{function}"):
            raise SpecError(f"{text!r} is not a {what}: write name:key=value,key=value.")
        name = f"{name}:{function}"
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key or not value:
            raise SpecError(f"{item!r} in {text!r} is not an option: write key=value.")
        if key in options:
            raise SpecError(f"{key!r} is given twice in {text!r}: keep one.")
        options[key] = value
    return Part(name, options)


def parse_chain(text: str, what: str) -> tuple[Part, ...]:
    """`a:x=1+b` → two parts, the outermost first."""
    return tuple(parse(part, what) for part in text.split("+"))


def choose(name: str, choices: Iterable[str], what: str) -> str:
    """`name` if it is one of `choices`; otherwise an error with the valid names and the nearest one."""
    names = list(choices)
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise SpecError(f"{name!r} is not a known {what}.{hint} Valid: {', '.join(names) or 'none'}.")


@functools.cache  # resolving annotations takes longer than everything else here
def _types_of(options: type[Any]) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    return typing.get_type_hints(options)


def bind(part: Part, options: type[T], what: str) -> T:
    """The options dataclass filled from a part; every key and value checked against its fields."""
    annotations = _types_of(typing.cast(Any, options))
    names = [f.name for f in dataclasses.fields(typing.cast(Any, options)) if f.init]
    values: dict[str, Any] = {}
    for key, text in part.options.items():
        choose(key, names, f"option of {what} {part.name}")
        values[key] = _convert(text, annotations[key], f"{what} {part.name}: {key}={text}")
    return options(**values)


def write(name: str, options: object) -> str:
    """The text that parses back to `options`: only what differs from the defaults."""
    given = {}
    for f in dataclasses.fields(typing.cast(Any, options)):
        value = getattr(options, f.name)
        if f.init and value != f.default:
            is_bytes = Bytes in _alternatives(_types_of(typing.cast(Any, type(options)))[f.name])
            given[f.name] = units.format_bytes(value) if is_bytes else _text(value)
    return _join(name, given)


def _join(name: str, options: Mapping[str, str]) -> str:
    return f"{name}:{','.join(f'{k}={v}' for k, v in options.items())}" if options else name


def _text(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(a for a in typing.get_args(annotation) if a is not type(None))
    return (annotation,)


def _convert(text: str, annotation: Any, where: str) -> Any:
    kind, *others = _alternatives(annotation)
    if others:
        raise SpecError(f"{where} cannot be set: {annotation} allows several types; annotate it with one.")
    if typing.get_origin(kind) is Literal:
        return choose(text, typing.get_args(kind), f"value in {where}")
    if kind is bool:
        return choose(text, ("on", "off"), f"value in {where}") == "on"
    if kind is Bytes:
        return units.parse_bytes(text)
    if not isinstance(kind, type) or issubclass(kind, (list, tuple, set, dict)):
        raise SpecError(f"{where} cannot be set: {annotation} is not the type of a single value.")
    try:
        return typing.cast(Any, kind)(text)
    except (ValueError, TypeError):
        noun = {int: "a whole number", float: "a number"}.get(kind, f"a {kind.__name__}")
        raise SpecError(f"{where} is not valid: {text!r} is not {noun}.") from None


def require(condition: bool, message: str) -> None:
    """Refuse with `message` unless `condition` holds; for the checks in `__post_init__`."""
    if not condition:
        raise SpecError(message)


def bind_call(part: Part, function: Callable[..., object]) -> dict[str, Any]:
    """Keyword arguments for a user's function from a part; its annotations (or defaults) give their types."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = {name: p for name, p in inspect.signature(function).parameters.items() if p.kind in named}
    for key in part.options:
        choose(key, parameters, f"option of {part.name}")
    needed = [name for name, p in parameters.items() if p.default is p.empty and name not in part.options]
    require(not needed, f"{part.name} needs a value for {', '.join(needed)}: write {part.name}:{'=…,'.join(needed)}=….")
    return {k: _convert(v, _kind(parameters[k], function), f"{part.name}: {k}={v}") for k, v in part.options.items()}


def _kind(parameter: inspect.Parameter, function: Callable[..., object]) -> Any:
    """The annotation of a parameter, or the type of its default."""
    if parameter.annotation is parameter.empty:
        return str if parameter.default in (None, parameter.empty) else type(parameter.default)
    # Resolved alone: other annotations may name what only a type checker imports.
    alone = {"__annotations__": {"it": parameter.annotation}, "__globals__": getattr(function, "__globals__", {})}
    return typing.get_type_hints(types.SimpleNamespace(**alone))["it"]

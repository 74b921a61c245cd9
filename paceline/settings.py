"""How a setting is declared: its bounds, flag, help and label, and the roles that decide how code treats it."""

import dataclasses
import enum
import functools
import math
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from paceline.errors import SpecError
from paceline.grammar import choose, require
from paceline.units import parse_seconds

Seconds = Annotated[float, "duration"]
"""A setting that is a duration; written `90s` or `5m` on the command line and in files."""

SettingValue = str | int | float | bool | None
"""What the value of a setting of a run can be."""

Names = tuple[str, ...]
"""A setting that is a list of names; separated by commas on the command line."""

_METADATA = "setting"


class Role(enum.Enum):
    """What a setting decides. Code asks for the settings of a role instead of listing their names."""

    IDENTITY = enum.auto()
    """Runs that differ in it are different runs; repeats of one run share it."""

    CHECKPOINT = enum.auto()
    """A checkpoint can be resumed only with the same value."""

    AXIS = enum.auto()
    """It can be an axis of a study."""

    LENGTH = enum.auto()
    """It only sets how long a run trains."""

    STEP = enum.auto()
    """It changes what one worker does in a step, apart from the size of its batch."""

    SERIES = enum.auto()
    """Runs of one series (a table's series, a projection) have the same value."""

    CURVE = enum.auto()
    """Charts draw runs that differ in it as different curves, and name the curves after it."""

    SUMMARY = enum.auto()
    """The report lists its values with what was measured."""

    TITLE = enum.auto()
    """The name of a single run shows it."""

    FROM_SITE = enum.auto()
    """Where the user leaves it open, the run takes the value of its site, such as a testbed."""

    RECIPE = enum.auto()
    """It is part of a workload's training recipe: runs of another workload may have another value."""

    OPERATION = enum.auto()
    """It changes how a run is operated, but neither what it computes nor how fast."""


class Baseline(enum.Enum):
    """How a setting of the one-worker baseline relates to the same setting of the run compared with it."""

    SAME = enum.auto()
    """The baseline must have the same value: otherwise the two are not comparable."""

    PREFERRED = enum.auto()
    """A study measures a baseline with the same value; a comparison prefers such a baseline, and accepts another."""

    ALONE = enum.auto()
    """The baseline has the value of one worker alone, whatever the run has."""

    UNUSED = enum.auto()
    """As ALONE, and the setting has no effect on one worker, so a difference in it is not worth showing."""

    ANY = enum.auto()
    """The comparison ignores it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One declared setting."""

    name: str = ""
    type: Any = None
    """The annotated type without `None`."""

    default: Any = dataclasses.MISSING
    help: str
    group: str
    """The panel of `train --help` that lists its flag."""

    roles: frozenset[Role]
    baseline: Baseline
    alone: Any = None
    """The value of one worker alone, where `baseline` is ALONE or UNUSED."""

    label: str = ""
    """Its name in tables and on axes."""

    words: str = "{}"
    """How its value is written in the name of a curve."""

    implied: Any = None
    """The value that an open setting resolves to, where it is the same for every run."""

    usual: tuple[Any, ...] = ()
    """Other values that names leave out."""

    axis_help: str | None = None
    """The help text of `study`, where it differs."""

    from_flag: bool = True
    """Whether a flag of the command line sets it."""

    varies: int = 0
    """Its place among the axes of a study: settings with a higher number vary faster."""

    least: float | None = None
    above: float | None = None
    most: float | None = None

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it accepts; empty where any value of its type is accepted."""
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    @property
    def optional(self) -> bool:
        """Whether None is a value: the workload or the plan then decides."""
        return self.default is None

    def has(self, role: Role) -> bool:
        """Whether it has this role."""
        return role in self.roles

    def is_default(self, value: Any) -> bool:
        """Whether a run that does not mention this setting has this value."""
        return bool(value == self.default or (self.implied is not None and value == self.implied))

    def is_usual(self, value: Any) -> bool:
        """Whether a name can leave the value out."""
        return value is None or self.is_default(value) or value in self.usual

    def in_words(self, value: Any) -> str:
        """The value as part of a name."""
        return self.words.format(written(value))

    def check(self, value: Any) -> None:
        """Refuse a value of the wrong type or out of bounds. Values may come from a file, which may hold anything."""
        if value is None and self.optional:
            return
        accepted, noun = _accepted(self.type)
        right = isinstance(value, accepted) and isinstance(value, bool) == (accepted is bool)
        right = right and (accepted is not tuple or all(isinstance(name, str) for name in value))
        require(right, f"{self.flag} {value!r} is not valid: it must be {noun}.")
        if self.choices:
            choose(value, self.choices, f"value of {self.flag}")
        elif accepted in (int, int | float):
            self._check_bounds(value)

    def _check_bounds(self, value: float) -> None:
        if self.above is not None:
            positive = self.above < value < math.inf
            require(positive, f"{self.flag} {value} is not valid: it must be above {self.above:g} and finite.")
        if self.least is not None and self.most is not None:
            within = self.least <= value <= self.most
            rule = f"it must be from {_shown(self.least)} to {_shown(self.most)}."
            require(within, f"{self.flag} {_shown(value)} is not valid: {rule}")
        elif self.least is not None:
            require(value >= self.least, f"{self.flag} {value} is not valid: it must be at least {self.least:g}.")
        elif self.most is not None:
            require(value <= self.most, f"{self.flag} {value} is not valid: it must be at most {_shown(self.most)}.")

    def parse(self, text: str) -> Any:
        """The value that a user gives as `text` on the command line."""
        if self.type is bool:
            return choose(text, ("on", "off"), f"value of {self.flag}") == "on"
        if self.type == Seconds:
            return self._duration(text)
        if self.type == Names:
            return tuple(name.strip() for name in text.split(",") if name.strip())
        if self.type not in (int, float):
            return text
        try:
            return self.type(text)
        except ValueError:
            noun = _accepted(self.type)[1]
            raise SpecError(f"{self.flag} {text} is not valid: it must be {noun}.") from None

    def read(self, value: Any) -> Any:
        """The value that a file has: durations may be written as on the command line, and lists are tuples here."""
        if self.type == Names and isinstance(value, list):
            return tuple(value)
        return self._duration(value) if self.type == Seconds and isinstance(value, str) else value

    def _duration(self, text: str) -> float:
        try:
            return parse_seconds(text)
        except SpecError as error:
            raise SpecError(f"{self.flag} {error}") from None


def setting(
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    group: str,
    roles: Iterable[Role],
    baseline: Baseline,
    **details: Any,
) -> Any:
    """Declare a setting as a field of a dataclass; `details` are other fields of `Setting`."""
    declared = Setting(default=default, help=help, group=group, roles=frozenset(roles), baseline=baseline, **details)
    return dataclasses.field(default=default, metadata={_METADATA: declared})


@functools.cache
def settings_of(declaring: type) -> dict[str, Setting]:
    """The settings that a dataclass declares, by name, in the order of their declaration."""
    hints = typing.get_type_hints(declaring, include_extras=True)
    declared: dict[str, Setting] = {}
    for field in dataclasses.fields(declaring):
        one = field.metadata.get(_METADATA)
        if one is None:
            raise TypeError(f"{declaring.__name__}.{field.name} is not declared with setting(): give it roles.")
        label = one.label or field.name.replace("_", " ")
        declared[field.name] = dataclasses.replace(
            one, name=field.name, type=_without_none(hints[field.name]), label=label
        )
    return declared


def read_toml(path: Path, declared: Mapping[str, Setting]) -> dict[str, Any]:
    """The content of a TOML file, with the values of declared settings as `Setting.read` returns them."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"{path} cannot be read ({error.strerror}): give a TOML file with settings.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML: {error}.") from error
    return {name: declared[name].read(value) if name in declared else value for name, value in content.items()}


def as_typed(value: Any) -> Any:
    """`on` or `off` for a boolean, as on the command line; any other value unchanged."""
    return ("on" if value else "off") if isinstance(value, bool) else value


def written(value: Any) -> str:
    """A value as people write it: on or off, and numbers without needless digits."""
    return f"{value:g}" if isinstance(value, float) else str(as_typed(value))


def _shown(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _without_none(annotation: Any) -> Any:
    if type(None) not in typing.get_args(annotation):
        return annotation
    (kind,) = (a for a in typing.get_args(annotation) if a is not type(None))
    return kind


def _accepted(kind: Any) -> tuple[Any, str]:
    """What a value of this type may be in Python, and what a message calls it."""
    if kind is bool:
        return bool, "true or false"
    if kind is int:
        return int, "a whole number"
    if kind == Seconds or kind is float:
        return int | float, "a number"
    return (tuple, "a list of names") if kind == Names else (str, "a string")

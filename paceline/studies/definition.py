"""What a study asks for: settings of runs and lists of them, from a TOML file and from flags."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline import spec
from paceline.grammar import choose, require
from paceline.settings import Role
from paceline.spec import read_toml, with_role

SCALINGS = ("weak", "strong")
EQUALS = ("samples", "updates")
FIT = "fit"
"""`workers_per_device = "fit"`: the smallest number with which the workers fit on this machine."""

SETTINGS = with_role(Role.AXIS)
"""Settings of runs that a study can vary."""

LENGTHS = frozenset({*with_role(Role.LENGTH), "timing", "samples", "equal"})
"""What decides how long runs are. Giving one of them anew, in `[full]` or by a flag, takes back the others."""

_OWN = ("name", "repeats", "scaling", "equal", "samples", "columns", "per_epoch")

Axes = Mapping[str, tuple[Any, ...]]
"""Settings and the values each takes, in the order they were written."""


@dataclass(frozen=True)
class Variant:
    """Settings that go together: a curve of a chart, a block of a table."""

    label: str | None
    axes: Axes


@dataclass(frozen=True, kw_only=True)
class Study:
    """A grid of runs, before it is spread out."""

    name: str
    axes: Axes
    variants: tuple[Variant, ...] = (Variant(None, {}),)
    repeats: int = 1
    scaling: str = "weak"
    """weak: `batch` is per worker. strong: it is of all workers together and divided among them."""

    equal: str | None = None
    """What all runs have the same number of: samples (`samples`), or updates (`steps`)."""

    samples: int | None = None
    columns: tuple[str, ...] = ()
    """Columns of the table beside those that vary and the rates."""

    per_epoch: bool = False
    """Whether there is a second table, with a row for every epoch."""

    def __post_init__(self) -> None:
        _check_type("name", self.name, str, "a word")
        require(
            bool(slug(self.name).strip("_.")),
            f"name = {self.name!r} is not valid: it names the study's folder, and needs a letter or a digit.",
        )
        _check_type("per_epoch", self.per_epoch, bool, "true or false")
        for name, count in (("repeats", self.repeats), ("samples", self.samples)):
            _check_type(name, count if count is not None else 1, int, "a whole number")
            require(count is None or count >= 1, f"{name} = {count} is not valid: it must be at least 1.")
        for name, word, choices in (("scaling", self.scaling, SCALINGS), ("equal", self.equal, EQUALS)):
            _check_type(name, word if word is not None else "", str, "a word")
            if word is not None:
                choose(word, choices, f"value of {name}")
        for variant in self.variants:
            axes = {**self.axes, **variant.axes}
            require(
                "workload" in axes, "A study needs a workload: write workload = …; `paceline workloads` lists them."
            )
            self._check_lengths(axes)

    def _check_lengths(self, axes: Axes) -> None:
        if self.scaling == "strong":
            given = None not in axes.get("batch", (None,))
            require(
                given, 'scaling = "strong" divides a batch among the workers: say how large it is in all, batch = …'
            )
        if self.equal == "updates":
            alone = axes.keys() & set(with_role(Role.LENGTH)) == {"steps"}
            require(alone, 'equal = "updates" needs the number of updates, steps = …, and neither epochs nor seconds.')
        if self.equal != "samples":
            require(self.samples is None, f'samples = {self.samples} needs equal = "samples" beside it.')
            return
        alone = self.samples is not None and not axes.keys() & set(with_role(Role.LENGTH))
        require(alone, 'equal = "samples" needs samples = …, and neither steps, epochs nor seconds beside it.')
        given = None not in axes.get("batch", (None,))
        require(given, 'equal = "samples" needs to know the batch: write batch = …')

    @property
    def blocks(self) -> Iterator[tuple[Variant, Axes]]:
        """Every variant and all its axes, its own ones in place of the study's; workers vary fastest."""
        for variant in self.variants:
            axes = {**self.axes, **variant.axes}
            yield variant, {name: axes[name] for name in sorted(axes, key=_varies_fastest)}

    @property
    def runs(self) -> int:
        """How many runs are asked for, repeats included and baselines that are not asked for left out."""
        return self.repeats * sum(math.prod(map(len, axes.values())) for _, axes in self.blocks)


def _varies_fastest(name: str) -> int:
    """Workers vary fastest, then workers per device; everything else keeps its order."""
    return {"workers_per_device": 1, "workers": 2}.get(name, 0)


def read_study(path: Path, *, full: bool, flags: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Study:
    """The study of a file: it wins over defaults, its `[full]` settings over it when asked for, and flags over all."""
    table = read_toml(path)
    return make_study({**(defaults or {}), "name": path.stem, **table}, full=full, flags=flags)


def make_study(table: Mapping[str, Any], *, full: bool = False, flags: Mapping[str, Any] | None = None) -> Study:
    """A study from plain data; unknown keys are refused with the nearest."""
    table = dict(table)
    larger = table.pop("full", None)
    if larger is not None:
        _check_type("full", larger, dict, "a table")
        _check_keys(larger, "variant")
    _check_keys(table, "variant")
    if full:
        require(larger is not None, "--full: this study has no [full] sizes; leave it out.")
        table = _override(table, larger)
    table = _override(table, flags or {})
    variants = table.pop("variant", [])
    _check_type("variant", variants, list, "[[variant]] tables")
    own = {name: table.pop(name) for name in _OWN if name in table}
    columns = own.pop("columns", ())
    _check_type("columns", columns, (list, tuple), "a list of names")
    for column in columns:
        _check_type("a name in columns", column, str, "a word")
    chosen = tuple(_variant(v, flags or {}) for v in variants) or (Variant(None, {}),)
    return Study(axes=_axes(table), variants=chosen, columns=tuple(columns), **own)


def _override(table: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    gone = LENGTHS if stronger.keys() & set(LENGTHS) else ()
    return {**{name: value for name, value in table.items() if name not in gone}, **stronger}


def _variant(table: Any, flags: Mapping[str, Any]) -> Variant:
    _check_type("variant", table, dict, "a table")
    for key in table:
        choose(key, ("label", *SETTINGS), "setting of a variant")
        require(key not in flags, f"--{key.replace('_', '-')} cannot be given: every variant of this study sets {key}.")
    label = table.get("label")
    _check_type("label", label if label is not None else "", str, "a word")
    return Variant(label, _axes({name: value for name, value in table.items() if name != "label"}))


def _axes(table: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    axes = {}
    for name, value in table.items():
        values = tuple(value) if isinstance(value, list | tuple) else (value,)
        require(bool(values), f"{name} = [] leaves the study without runs: give at least one value.")
        for item in values:
            plain = item is None or isinstance(item, str | int | float)  # TOML has dates, too
            require(plain, f"{name} = {item} is not valid: write a number, a word, true or false, or a list of them.")
        declared = spec.SETTINGS.get(name)
        axes[name] = tuple(map(declared.read, values)) if declared is not None else values
    return axes


def slug(text: Any) -> str:
    """The name in `name:key=value`, as part of a file's name; never hidden, and never a way out of a folder."""
    name = str(text).partition(":")[0]
    return "".join(c if c.isalnum() or c in "_." else "_" for c in name)[:40].lstrip(".")


def parse_values(name: str, texts: list[str]) -> list[Any]:
    """The values of a setting as typed on the command line: commas separate numbers, and may be part of words."""
    one = spec.SETTINGS[name]
    if one.choices or one.type in (str, bool):
        return [one.parse(text) for text in texts]
    items = [item.strip() for text in texts for item in text.split(",") if item.strip()]
    return [item if name == "workers_per_device" and item == FIT else one.parse(item) for item in items]


def _check_keys(table: Mapping[str, Any], *more: str) -> None:
    for key in table:
        choose(key, (*_OWN, *SETTINGS, *more), "setting of a study")


def _check_type(name: str, value: Any, kind: type | tuple[type, ...], noun: str) -> None:
    right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    require(right, f"{name} = {value!r} is not valid: it must be {noun}.")

"""The definition of a study: settings of runs and lists of values, from a TOML file and from flags."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from paceline import spec
from paceline.grammar import choose, require
from paceline.settings import Baseline, Names, Role, read_toml, setting, settings_of
from paceline.spec import with_role

FIT = "fit"
"""`workers_per_device = "fit"`: as few as fit on this machine, by one rule for all points of a curve."""

SETTINGS = with_role(Role.AXIS)
"""Settings of runs that a study can vary."""

_GROUP = "The study"

Axes = Mapping[str, tuple[Any, ...]]
"""Settings, each with its values, in the order in which they were written."""

Table = Mapping[str, Any]
"""A table of a TOML file, or flags by the same names, before validation."""


@dataclass(frozen=True)
class Variant:
    """Settings that belong together: a curve of a chart, a block of a table."""

    label: str | None
    axes: Axes


@dataclass(frozen=True, kw_only=True)
class StudySettings:
    """The settings of the study itself, in addition to those of its runs."""

    name: str = setting(
        help="Name of the study and of its folder (default: the name of the file or workload).",
        group=_GROUP,
        roles=(Role.IDENTITY,),
        baseline=Baseline.ANY,
    )
    repeats: int = setting(
        1,
        help="Number of runs of every combination, taken in turns.",
        group=_GROUP,
        roles=(Role.IDENTITY,),
        baseline=Baseline.ANY,
        least=1,
    )
    scaling: Literal["weak", "strong"] = setting(
        "weak",
        help="weak: --batch is per worker; strong: it is divided among all workers.",
        group=_GROUP,
        roles=(Role.IDENTITY,),
        baseline=Baseline.ANY,
    )
    equal: Literal["samples", "updates"] | None = setting(
        None,
        help="What is equal in all runs: the number of samples (give --samples) or updates (give --steps).",
        group=_GROUP,
        roles=(Role.IDENTITY, Role.LENGTH),
        baseline=Baseline.ANY,
    )
    samples: int | None = setting(
        None,
        help="With --equal samples: the number of samples of every run.",
        group=_GROUP,
        roles=(Role.IDENTITY, Role.LENGTH),
        baseline=Baseline.ANY,
        least=1,
    )
    columns: Names = setting(
        (),
        help="Additional columns of the table: val_loss,time,utilisation,sent, or a metric.",
        group=_GROUP,
        roles=(Role.OPERATION,),
        baseline=Baseline.ANY,
    )
    per_epoch: bool = setting(
        False,
        help="Print a second table with a row for every epoch.",
        group=_GROUP,
        roles=(Role.OPERATION,),
        baseline=Baseline.ANY,
    )


STUDY_SETTINGS = settings_of(StudySettings)
"""The settings of a study itself, by name."""

LENGTHS = frozenset(
    {*with_role(Role.LENGTH), "timing", *(name for name, one in STUDY_SETTINGS.items() if one.has(Role.LENGTH))}
)
"""Settings that determine the length of runs. Setting one of them in `[full]` or by a flag unsets the others."""


@dataclass(frozen=True, kw_only=True)
class Study(StudySettings):
    """A grid of runs, before it is expanded."""

    axes: Axes
    variants: tuple[Variant, ...] = (Variant(None, {}),)

    def __post_init__(self) -> None:
        for one in STUDY_SETTINGS.values():
            one.check(getattr(self, one.name))
        require(
            bool(slug(self.name).strip("_.")),
            f"--name {self.name!r} is not valid: it names the study's folder and must contain a letter or a digit.",
        )
        for variant in self.variants:
            axes = {**self.axes, **variant.axes}
            require(
                "workload" in axes, "A study needs a workload: write workload = …; `paceline workloads` lists them."
            )
            self._check_lengths(axes)
            self._check_validation(axes)

    def _check_lengths(self, axes: Axes) -> None:
        if self.scaling == "strong":
            given = None not in axes.get("batch", (None,))
            require(
                given,
                'scaling = "strong" divides a batch among the workers: give the global batch, batch = …',
            )
        if self.equal == "updates":
            alone = axes.keys() & set(with_role(Role.LENGTH)) == {"steps"}
            require(alone, 'equal = "updates" needs the number of updates, steps = …, without epochs or seconds.')
        if self.equal != "samples":
            require(self.samples is None, f'samples = {self.samples} needs equal = "samples": add it.')
            return
        alone = self.samples is not None and not axes.keys() & set(with_role(Role.LENGTH))
        require(alone, 'equal = "samples" needs samples = …, without steps, epochs or seconds.')
        given = None not in axes.get("batch", (None,))
        require(given, 'equal = "samples" needs the batch: write batch = …')

    def _check_validation(self, axes: Axes) -> None:
        """Refuse figures of a validation without a validation: the runs of a study validate only on request."""
        when = set(axes.get("validate", ("off",)))
        require(
            not self.per_epoch or when == {"epoch"},
            'per_epoch = true needs a validation after every epoch: write validate = "epoch".',
        )
        require(
            "val_loss" not in self.columns or when != {"off"},
            'columns = ["val_loss"] needs a validation: write validate = "end" or "epoch".',
        )

    @property
    def blocks(self) -> Iterator[tuple[Variant, Axes]]:
        """Every variant with its axes, which override those of the study; workers vary fastest."""
        for variant in self.variants:
            axes = {**self.axes, **variant.axes}
            yield variant, {name: axes[name] for name in sorted(axes, key=lambda name: spec.SETTINGS[name].varies)}

    @property
    def runs(self) -> int:
        """The number of requested runs with their repeats, without baselines that were added."""
        return self.repeats * sum(math.prod(map(len, axes.values())) for _, axes in self.blocks)


def read_study(
    path: Path, *, full: bool, flags: Table, defaults: Table | None = None, only: Sequence[str] = ()
) -> Study:
    """The study of a file. Precedence: flags, then `[full]` settings if requested, then the file, then defaults."""
    table = read_toml(path, spec.SETTINGS)
    return make_study({**(defaults or {}), "name": path.stem, **table}, full=full, flags=flags, only=only)


def make_study(table: Table, *, full: bool = False, flags: Table | None = None, only: Sequence[str] = ()) -> Study:
    """A study from plain data; an unknown key is refused with the closest one as a suggestion.

    `only` names the variants to keep, by their labels; none keeps all of them.
    """
    table = dict(table)
    larger = table.pop("full", None)
    if larger is not None:
        _check_type("full", larger, dict, "a table")
        _check_keys(larger, "variant")
    _check_keys(table, "variant")
    if full:
        require(larger is not None, "--full cannot be given: this study has no [full] settings; leave it out.")
        table = _override(table, larger)
    table = _override(table, flags or {})
    variants = table.pop("variant", [])
    _check_type("variant", variants, list, "[[variant]] tables")
    variants = _kept(variants, only) if only else variants
    own = {name: one.read(table.pop(name)) for name, one in STUDY_SETTINGS.items() if name in table}
    chosen = tuple(_variant(v, flags or {}) for v in variants) or (Variant(None, {}),)
    return Study(axes=_axes(table), variants=chosen, **own)


def _kept(variants: list[Any], only: Sequence[str]) -> list[Any]:
    labels = [variant.get("label") for variant in variants if isinstance(variant, dict)]
    for label in only:
        choose(label, tuple(filter(None, labels)), "variant of this study")
    return [variant for variant in variants if variant.get("label") in only]


def _override(table: Table, stronger: Table) -> dict[str, Any]:
    gone = LENGTHS if stronger.keys() & set(LENGTHS) else ()
    return {**{name: value for name, value in table.items() if name not in gone}, **stronger}


def _variant(table: Any, flags: Table) -> Variant:
    _check_type("variant", table, dict, "a table")
    for key in table:
        choose(key, ("label", *SETTINGS), "setting of a variant")
        require(key not in flags, f"--{key.replace('_', '-')} cannot be given: every variant of this study sets {key}.")
    label = table.get("label")
    _check_type("label", label if label is not None else "", str, "a word")
    return Variant(label, _axes({name: value for name, value in table.items() if name != "label"}))


def _axes(table: Table) -> dict[str, tuple[Any, ...]]:
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
    """The name in `name:key=value` as part of a file name; it is never hidden and never leads out of a folder."""
    name = str(text).partition(":")[0]
    return "".join(c if c.isalnum() or c in "_." else "_" for c in name)[:40].lstrip(".")


def parse_values(name: str, texts: list[str]) -> list[Any]:
    """The values of a setting from the command line: commas separate numbers, but may be part of words."""
    one = spec.SETTINGS[name]
    if one.choices or one.type in (str, bool):
        return [one.parse(text) for text in texts]
    items = [item.strip() for text in texts for item in text.split(",") if item.strip()]
    return [item if name == "workers_per_device" and item == FIT else one.parse(item) for item in items]


def _check_keys(table: Table, *more: str) -> None:
    for key in table:
        choose(key, (*STUDY_SETTINGS, *SETTINGS, *more), "setting of a study")


def _check_type(name: str, value: Any, kind: type, noun: str) -> None:
    require(isinstance(value, kind), f"{name} = {value!r} is not valid: it must be {noun}.")

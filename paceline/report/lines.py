"""The curves of a chart: what varies between settings apart from the number of workers, and how to name it."""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from paceline.record import Record
from paceline.settings import Baseline, Role, Setting, as_typed
from paceline.spec import SETTINGS, with_baseline, with_role


@dataclass(frozen=True)
class PlacedRecord:
    """A setting and the study that it belongs to."""

    study: str
    strong: bool
    """Whether the study divides one batch among its workers."""

    record: Record
    label: str | None = None
    """The name that the study gives it."""

    @property
    def is_baseline(self) -> bool:
        """Whether this is one worker without communication."""
        return self.record.spec.is_alone


@dataclass(frozen=True)
class Dimension:
    """A setting that varies between curves."""

    name: str
    value: Callable[[PlacedRecord], Any]
    heading: str
    """Heading of a column and of a group of checkboxes."""

    words: Callable[[Any], str] = str
    """How a value is written in the name of a curve."""

    def text(self, place: PlacedRecord) -> str:
        """The value as it appears in a curve's name."""
        return self.words(self.value(place))


def _of_setting(setting: Setting) -> Dimension:
    """A dimension that reads a setting from the record."""

    def words(value: Any) -> str:
        return f"no {setting.label}" if value is None else setting.in_words(value)

    def value(place: PlacedRecord) -> Any:
        return as_typed(getattr(place.record.spec, setting.name))

    return Dimension(setting.name, value, setting.label, words)


def _batch(place: PlacedRecord) -> str:
    record = place.record
    return f"{record.batch * record.spec.workers} in total" if place.strong else str(record.batch)


def _length(place: PlacedRecord) -> str:
    """Every condition that may end the run: `30 s`, or `within 5 %, 600 s`."""
    spec = place.record.spec
    given = {name: getattr(spec, name) for name in ("until_percent", *with_role(Role.LENGTH))}
    return ", ".join(SETTINGS[name].in_words(value) for name, value in given.items() if value is not None)


_STUDY = Dimension("study", lambda place: place.study, "study")
_VARIANT = Dimension("variant", lambda place: place.label, "variant")
_LENGTH = Dimension("length", _length, "length")
_BATCH = Dimension("batch", _batch, SETTINGS["batch"].label, SETTINGS["batch"].in_words)
_NETWORK = Dimension("network", lambda place: place.record.spec.network or "one node", SETTINGS["network"].label)
_BY_NAME = {name: _of_setting(one) for name, one in SETTINGS.items()} | {d.name: d for d in (_BATCH, _NETWORK)}
_BY_NAME |= dict.fromkeys((*with_role(Role.LENGTH), "until_percent"), _LENGTH)
_WORKERS, _WORKLOAD, _STRATEGY = _BY_NAME["workers"], _BY_NAME["workload"], _BY_NAME["strategy"]
_DIMENSIONS = tuple(dict.fromkeys((_STUDY, *(_BY_NAME[name] for name in with_role(Role.CURVE)))))
_WITH_COUNT = (_LENGTH, _BY_NAME["workers_per_device"])
"""Dimensions that often follow from the number of workers and then do not name a curve."""

_LAST_RESORT = tuple(
    dict.fromkeys((*_DIMENSIONS, *(_BY_NAME[name] for name in with_role(Role.IDENTITY) if name != "workers")))
)
"""Settings that identify a run; they separate two curves where the usual dimensions do not."""

_UNLIKE_BASELINE = frozenset(with_baseline(Baseline.ALONE, Baseline.UNUSED, Baseline.PREFERRED)) - {_STRATEGY.name}
"""Settings that mean nothing for one worker alone and so do not give the baseline a curve of its own."""


def dimensions_of(places: Sequence[PlacedRecord]) -> tuple[Dimension, ...]:
    """The dimensions that vary, or the strategy where none does; a label replaces the dimensions that it determines.

    Two settings with as many workers never have the same name.
    """
    varying = tuple(d for d in _DIMENSIONS if len(set(map(d.value, _asked(d, places)))) > 1)
    if all(place.label is not None for place in places):
        varying = (_VARIANT, *(d for d in varying if not _follows((_VARIANT,), d, places)))
    if _WORKLOAD in varying:  # a model often comes with its own batch and learning rate
        recipe = with_role(Role.RECIPE)
        varying = tuple(d for d in varying if d.name not in recipe or not _follows((_WORKLOAD,), d, places))
    for dimension in _WITH_COUNT:
        others = tuple(d for d in varying if d is not dimension)
        if _follows((_WORKERS, *others), dimension, places):
            varying = others
    varying += tuple(_needed(varying, places))
    short = short_names({place.record.spec.workload for place in places})
    workload = Dimension("workload", lambda place: short[place.record.spec.workload], _WORKLOAD.heading)
    return tuple(workload if d is _WORKLOAD else d for d in varying or (_STRATEGY,))


def _needed(varying: Sequence[Dimension], places: Sequence[PlacedRecord]) -> Iterator[Dimension]:
    """Further dimensions that separate settings with the same name and as many workers."""
    known = [_WORKERS, *varying]
    for dimension in _LAST_RESORT:
        if dimension not in known and not _follows(known, dimension, places):
            known.append(dimension)
            yield dimension


def short_names(workloads: Set[str]) -> dict[str, str]:
    """Each workload without the options that all workloads of its name share."""
    options: dict[str, list[set[str]]] = {}
    for text in workloads:
        name, _, given = text.partition(":")
        options.setdefault(name, []).append(set(given.split(",")))
    short = {}
    for text in workloads:
        name, _, given = text.partition(":")
        common = set.intersection(*options[name])
        left = ",".join(option for option in given.split(",") if option not in common)
        short[text] = f"{name}:{left}" if left else name
    return short


def _asked(dimension: Dimension, places: Sequence[PlacedRecord]) -> Iterator[PlacedRecord]:
    if dimension is _NETWORK:  # curves start on one node, which has no network
        return (place for place in places if place.record.spec.network is not None)
    return (place for place in places if dimension.name not in _UNLIKE_BASELINE or not place.is_baseline)


def _follows(known: Sequence[Dimension], dimension: Dimension, places: Sequence[PlacedRecord]) -> bool:
    """Whether settings that agree in the known dimensions also agree in this one."""
    seen: dict[tuple[Any, ...], Any] = {}
    return all(
        seen.setdefault(tuple(d.value(place) for d in known), dimension.value(place)) == dimension.value(place)
        for place in places
    )

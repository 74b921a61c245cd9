"""The curves of a chart: what varies between settings beside the number of workers, and how it is called."""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from paceline.record import Record


@dataclass(frozen=True)
class PlacedRecord:
    """A setting, and the study it is from."""

    study: str
    strong: bool
    """Whether the study divides a batch among its workers."""

    record: Record
    label: str | None = None
    """What the study calls it."""

    @property
    def is_baseline(self) -> bool:
        """One worker that exchanges nothing."""
        return bool(self.record.spec.workers == 1 and self.record.spec.strategy == "independent")


@dataclass(frozen=True)
class Dimension:
    """Something that is not the same in all curves."""

    name: str
    value: Callable[[PlacedRecord], Any]
    words: str = "{}"
    """How a value is written in the name of a curve."""

    @property
    def heading(self) -> str:
        """Of a column, and of a choice."""
        return self.name.replace("_", " ")

    def text(self, place: PlacedRecord) -> str:
        """The value in the words of a curve's name."""
        value = self.value(place)
        return self.words.format(f"{value:g}" if isinstance(value, float) else value)


def _spec(name: str, words: str = "{}") -> Dimension:
    return Dimension(name, lambda place: place.record.spec.get(name), words)


def _batch(place: PlacedRecord) -> str:
    spec = place.record.spec
    return f"{spec.batch * spec.workers} in all" if place.strong else str(spec.batch)


_VARIANT = Dimension("variant", lambda place: place.label)
_WORKERS, _WORKLOAD = _spec("workers"), _spec("workload")
_PER_DEVICE = _spec("workers_per_device", "{} per device")
_NETWORK = Dimension("network", lambda place: place.record.spec.network or "one node")
_DIMENSIONS = (
    Dimension("study", lambda place: place.study),
    _WORKLOAD,
    _spec("strategy"),
    _spec("feed"),
    _PER_DEVICE,
    _NETWORK,
    Dimension("batch", _batch, "batch {}"),
    _spec("precision"),
    _spec("accumulate", "accumulate {}"),
    _spec("lr", "lr {}"),
    _spec("lr_rule", "lr rule {}"),
    _spec("clip_norm", "clip norm {}"),
    _spec("cores_per_device", "{} cores per device"),
    _spec("device"),
    Dimension("slow_motion", lambda place: place.record.spec.slow_motion or 1.0, "slow motion {}"),
    _spec("mps", "mps {}"),
    _spec("timing"),
    _spec("seed", "seed {}"),
)
_UNLIKE_BASELINE = ("lr_rule", "mps", "workers_per_device", "slow_motion")
"""What one worker alone has no use for, so that it does not set the baseline apart."""

_OF_A_WORKLOAD = ("batch", "lr", "lr_rule", "clip_norm")


def dimensions_of(places: Sequence[PlacedRecord]) -> tuple[Dimension, ...]:
    """What varies; where nothing does, the strategy names the only curve. A label stands for all that it tells."""
    varying = tuple(d for d in _DIMENSIONS if len(set(map(d.value, _asked(d, places)))) > 1)
    if all(place.label is not None for place in places):
        varying = (_VARIANT, *(d for d in varying if not _is_told((_VARIANT,), d, places)))
    if _WORKLOAD in varying:  # with a model of its own go its batch and its rate
        varying = tuple(d for d in varying if d.name not in _OF_A_WORKLOAD or not _is_told((_WORKLOAD,), d, places))
    others = tuple(d for d in varying if d is not _PER_DEVICE)
    if _PER_DEVICE in varying and _is_told((_WORKERS, *others), _PER_DEVICE, places):
        varying = others  # no choice of its own
    varying = varying or tuple(d for d in _DIMENSIONS if d.name == "strategy")
    short = short_names({str(place.record.spec.workload) for place in places})
    workload = Dimension("workload", lambda place: short[str(place.record.spec.workload)])
    return tuple(workload if d is _WORKLOAD else d for d in varying)


def short_names(workloads: Set[str]) -> dict[str, str]:
    """Each workload without the options that all of its name have: those are said once, with what was measured."""
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
    if dimension is _NETWORK:  # a curve begins on one node, which has none
        return (place for place in places if place.record.spec.network is not None)
    return (place for place in places if dimension.name not in _UNLIKE_BASELINE or not place.is_baseline)


def _is_told(known: Sequence[Dimension], dimension: Dimension, places: Sequence[PlacedRecord]) -> bool:
    """Whether what is known of a setting tells this dimension, too."""
    seen: dict[tuple[Any, ...], Any] = {}
    return all(
        seen.setdefault(tuple(d.value(place) for d in known), dimension.value(place)) == dimension.value(place)
        for place in places
    )

"""The curves of a chart: what varies between settings beside the number of workers, and how it is called."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.record import Record


@dataclass(frozen=True)
class Place:
    """A setting, and the study it is from."""

    study: str
    strong: bool
    """Whether the study divides a batch among its workers."""

    record: Record

    @property
    def is_baseline(self) -> bool:
        """One worker that exchanges nothing."""
        return bool(self.record.spec["workers"] == 1 and self.record.spec["strategy"] == "independent")


@dataclass(frozen=True)
class Dimension:
    """Something that is not the same in all curves."""

    name: str
    value: Callable[[Place], Any]
    words: str = "{}"
    """How a value is written in the name of a curve."""

    @property
    def heading(self) -> str:
        """Of a column, and of a choice."""
        return self.name.replace("_", " ")

    def text(self, place: Place) -> str:
        """The value in the words of a curve's name."""
        value = self.value(place)
        return self.words.format(f"{value:g}" if isinstance(value, float) else value)


def _spec(name: str, words: str = "{}") -> Dimension:
    return Dimension(name, lambda place: place.record.spec.get(name), words)


def _batch(place: Place) -> str:
    spec = place.record.spec
    return f"{spec['batch'] * spec['workers']} in all" if place.strong else str(spec["batch"])


_PER_DEVICE = _spec("workers_per_device", "{} per device")
_DIMENSIONS = (
    Dimension("study", lambda place: place.study),
    _spec("workload"),
    _spec("strategy"),
    _spec("feed"),
    _PER_DEVICE,
    Dimension("batch", _batch, "batch {}"),
    _spec("precision"),
    _spec("accumulate", "accumulate {}"),
    _spec("lr", "lr {}"),
    _spec("lr_rule", "lr rule {}"),
    _spec("clip_norm", "clip norm {}"),
    _spec("cores_per_device", "{} cores per device"),
    _spec("device"),
    _spec("mps", "mps {}"),
    _spec("timing"),
    _spec("seed", "seed {}"),
)
_UNLIKE_BASELINE = ("lr_rule", "mps", "workers_per_device")
"""What one worker alone has no use for, so that it does not set the baseline apart."""


def dimensions_of(places: Sequence[Place]) -> tuple[Dimension, ...]:
    """What varies; where nothing does, the strategy names the only curve."""
    varying = tuple(d for d in _DIMENSIONS if len(set(map(d.value, _asked(d, places)))) > 1)
    if _PER_DEVICE in varying and _follows_workers(tuple(d for d in varying if d is not _PER_DEVICE), places):
        varying = tuple(d for d in varying if d is not _PER_DEVICE)
    return varying or tuple(d for d in _DIMENSIONS if d.name == "strategy")


def _asked(dimension: Dimension, places: Sequence[Place]) -> Iterator[Place]:
    return (place for place in places if dimension.name not in _UNLIKE_BASELINE or not place.is_baseline)


def _follows_workers(others: Sequence[Dimension], places: Sequence[Place]) -> bool:
    """Whether the number of workers says how many share a device, so that it is no choice of its own."""
    seen: dict[tuple[Any, ...], Any] = {}
    for place in places:
        key = (place.record.spec["workers"], *(d.value(place) for d in others))
        if seen.setdefault(key, _PER_DEVICE.value(place)) != _PER_DEVICE.value(place):
            return False
    return True

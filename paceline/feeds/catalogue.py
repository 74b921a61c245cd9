"""The feeds by name and their options; implementations are imported only when one is built."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from paceline import grammar
from paceline.grammar import require

if TYPE_CHECKING:
    from paceline.feeds.base import Feed, FeedContext
    from paceline.workloads.base import Examples


def _not_negative(feed: str, **counts: int) -> None:
    for name, count in counts.items():
        require(0 <= count <= 256, f"{feed}: {name}={count} is not valid: it must be from 0 (none) to 256.")


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """The workload's own samples."""

    shard: bool = True
    """on: workers divide the samples of an epoch; off: every worker uses all of them."""

    prefetch: int = 0
    """Batches that a thread keeps ready on the device; 0: each is moved there when it is needed."""

    loaders: int = 0
    """Processes per worker that make batches; 0: the worker makes each one itself when it needs it."""

    def __post_init__(self) -> None:
        _not_negative("dataset", prefetch=self.prefetch, loaders=self.loaders)


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """Random batches that look like the workload's."""

    at: Literal["device", "host", "python"] = "device"
    """device: one constant batch; host: one per step, by tensor operations; python: by other processes, with NumPy."""

    prefetch: int = 0
    """Batches that a thread keeps ready on the device; 0: each is moved there when it is needed."""

    loaders: int = 0
    """Processes per worker that make batches, for at=python; 0 means one."""

    def __post_init__(self) -> None:
        _not_negative("synthetic", prefetch=self.prefetch, loaders=self.loaders)
        if self.at == "device":
            for name, count in (("prefetch", self.prefetch), ("loaders", self.loaders)):
                require(
                    count == 0,
                    f"synthetic:at=device cannot be combined with {name}={count}: its batch is on the device already. "
                    f"Leave out {name}, or use at={'host' if name == 'prefetch' else 'python'}.",
                )
        require(
            self.at != "host" or self.loaders == 0,
            f"synthetic:at=host cannot be combined with loaders={self.loaders}: its batches are made in the worker. "
            "Leave out loaders, or use at=python.",
        )


@dataclass(frozen=True)
class FeedEntry:
    """The builder of a feed, its options, and its summary."""

    builder: str
    options: type[Any]
    summary: str


FEEDS: Mapping[str, FeedEntry] = {
    "dataset": FeedEntry(
        "dataset:dataset",
        DatasetOptions,
        "the workload's samples, divided among workers, or all of them for each worker",
    ),
    "synthetic": FeedEntry("synthetic:synthetic", SyntheticOptions, "random batches like the workload's, endless"),
}


def resolve(text: str) -> tuple[str, Any]:
    """The name and the options of the feed that `text` names; refused if it is not valid. Needs no torch."""
    part = grammar.parse(text, "feed")
    return part.name, grammar.bind(part, FEEDS[grammar.choose(part.name, FEEDS, "feed")].options, "feed")


def check(text: str) -> str:
    """The feed as records write it; refused if it is not valid."""
    return grammar.write(*resolve(text))


def build(text: str, examples: "Examples", context: "FeedContext") -> "Feed":
    """Build the feed that `text` names, from these examples for this worker."""
    name, options = resolve(text)
    module, _, function = FEEDS[name].builder.partition(":")
    builder = getattr(importlib.import_module(f"paceline.feeds.{module}"), function)
    feed: Feed = builder(options, examples, context)
    return feed

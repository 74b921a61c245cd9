"""The interface of a step-time law: compute, which all laws share, and an exchange that each law defines."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from paceline.measure.extremes import maximum_bound

Array = npt.NDArray[np.float64]
Shape = Literal["ring", "tree", "gather"]

# How the exchange grows with its members x, scaled to 1 at four of them. Ring: (x − 1)/x, what each sends in an
# all-reduce, nearly constant. Tree: log x, rounds. Gather: x − 1, all to one or each to all.
_MEMBERS = 4.0
_MAX_OVERLAP = 20.0


@dataclass(frozen=True)
class Prior:
    """The prior of a positive quantity: its median, and its spread in logarithms."""

    median: float
    spread: float


# Times are in units of one worker's step at the typical batch; the medians are typical of training on GPUs.
COMPUTE_PRIORS: dict[str, Prior] = {
    "compute": Prior(0.95, 0.7),  # at the typical batch
    "slowest": Prior(0.004, 1.0),  # spread between workers; the slowest of n lags by about √(2 ln n) of it
}
FIXED = Prior(0.1, 1.5)
"""Compute that does not depend on the batch, divided by the compute that is proportional to it."""

OVERLAP = Prior(1.0, 1.0)
"""γ − 1 where exchange is overlapped with compute: (C^γ + N^γ)^(1/γ)."""

LATENCY = Prior(2e-4, 1.5)
"""Latency added by each further worker, on any node; a parameter of most laws."""

NODE_COST = 0.0075
"""What a second node costs before any row shows it: the median, in units of one worker's step."""

NODE_COSTS = tuple(NODE_COST * 2.0**power for power in range(-2, 3))
"""What a cluster may prefer on the page on accuracy, where another is left out."""

COMPUTE_LIMITS = {"compute": "compute", "slowest": "slowest worker", "sharing": "compute shared on a node"}
"""Parts of a step that are not exchange, with the name of the limit when one of them dominates the step."""


@dataclass(frozen=True, eq=False)
class Settings:
    """The settings at which a law predicts step time."""

    workers: Array
    nodes: Array | None
    batch: Array | None
    capacity: float | None = None
    """The number of workers that fit on a node; None where that is unknown."""

    @cached_property
    def per_node(self) -> Array:
        """Workers on the fullest node. A node is full where no more nodes are used than necessary."""
        if self.nodes is None:
            return self.workers
        spread = self.workers / self.nodes
        if self.capacity is None:
            return spread
        filled = self.nodes == np.ceil(self.workers / self.capacity)
        return np.where(filled, np.minimum(self.workers, self.capacity), spread)

    @cached_property
    def lag(self) -> Array:
        """How far the slowest worker lags, approximately, in units of the spread."""
        return maximum_bound(self.workers)

    @cached_property
    def grown_inside(self) -> dict[Shape, Array]:
        """How much an exchange of each shape grows with the workers on a node."""
        return _grown(self.per_node)

    @cached_property
    def grown_between(self) -> dict[Shape, Array]:
        """How much an exchange of each shape grows with the nodes."""
        return _grown(np.ones_like(self.workers) if self.nodes is None else self.nodes)

    def where(self, chosen: "slice | npt.NDArray[np.bool_]") -> "Settings":
        """Only the selected settings."""
        nodes, batch = (None if column is None else column[chosen] for column in (self.nodes, self.batch))
        return Settings(self.workers[chosen], nodes, batch, self.capacity)

    def on_nodes_of(self, capacity: float) -> "Settings":
        """The same workers on as few nodes as possible."""
        return Settings(self.workers, np.ceil(self.workers / capacity), self.batch, capacity)


@dataclass(frozen=True, eq=False)
class Scope:
    """What a law must know about the table that it is fitted to."""

    unit_seconds: float
    """The unit of time: the step time with the fewest workers."""

    typical_batch: float | None
    """The typical batch; None where the batch is unknown."""

    counts: Array
    """Worker counts in the table."""

    knows_nodes: bool
    leaves_node: bool = True
    """Whether rows are on several nodes, and so show what crosses them."""

    node_cost: float = NODE_COST
    """Without such rows: the median of what a second node is believed to cost, in units of one worker's step."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Law(ABC):
    """One law of the family. Parameters are logarithms, one row of them per draw.

    A law defines its name, the priors of its exchange, and the exchange itself; compute is the same in all of them.
    """

    priors: ClassVar[Mapping[str, Prior]]
    """The parameters of the exchange, in order, each with its prior."""

    extra_compute: ClassVar[Mapping[str, Prior]] = {}
    """Additional parameters of this law that do not concern the exchange."""

    limits: ClassVar[Mapping[str, str]]
    """The parts of the exchange, with the name of the limit when one dominates: "bandwidth", "latency" …"""

    crossing: ClassVar[frozenset[str]] = frozenset()
    """The parts of the exchange that cross nodes."""

    scope: Scope
    overlaps: bool
    """Whether part of the exchange is overlapped with compute."""

    share: float
    """The law's prior weight, relative to the others."""

    @property
    @abstractmethod
    def exchange_name(self) -> str:
        """How the exchange grows, in a few words."""

    @abstractmethod
    def exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """The parts of the exchange, in units of one worker's step: a row per draw, a column per setting."""

    def compute(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """The parts of a step that are not exchange, in the same shape as those of the exchange."""
        alone = named["compute"] * np.ones_like(at.workers)
        if self.scope.typical_batch is not None and at.batch is not None:
            alone = named["compute"] * (at.batch / self.scope.typical_batch + named["fixed"]) / (1 + named["fixed"])
        return {"compute": alone, "slowest": alone * named["slowest"] * at.lag}

    def placed(self, at: Settings) -> Settings:
        """The settings as the law sees them: it may assume nodes, or ignore the given ones."""
        return at

    @property
    def name(self) -> str:
        """The law's name in an answer."""
        return f"{self.exchange_name}, {'partly overlapped' if self.overlaps else 'not overlapped'}"

    @property
    def exchange_priors(self) -> Mapping[str, Prior]:
        """The priors of the exchange, with what is believed about the table's cluster."""
        return self.priors

    @cached_property
    def all_priors(self) -> dict[str, Prior]:
        """Every parameter of the law with its prior, in order."""
        return {
            **COMPUTE_PRIORS,
            **({"fixed": FIXED} if self.scope.typical_batch is not None else {}),
            **self.extra_compute,
            **self.exchange_priors,
            **({"overlap": OVERLAP} if self.overlaps else {}),
        }

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(self.all_priors)

    @cached_property
    def centre(self) -> Array:
        """The medians of the priors."""
        return np.log([prior.median for prior in self.all_priors.values()])

    @cached_property
    def spread(self) -> Array:
        """The spreads of the priors."""
        return np.array([prior.spread for prior in self.all_priors.values()])

    @property
    def exchanging(self) -> npt.NDArray[np.bool_]:
        """A mask of the parameters that describe the exchange."""
        return np.array([name in self.priors for name in self.parameters])

    def log_seconds(self, draws: Array, at: Settings, stretch: Array | None = None) -> Array:
        """Logarithm of the step's seconds: a row per draw, a column per setting.

        What crosses nodes takes `stretch` times as long, in the same shape as the result.
        """
        named, at = self._named(draws), self.placed(at)
        compute = np.asarray(sum(self.compute(named, at).values()))
        parts = self.exchange(named, at)
        if stretch is not None:
            parts = {name: part * stretch if name in self.crossing else part for name, part in parts.items()}
        exchange = np.asarray(sum(parts.values()))
        together = compute + exchange
        if self.overlaps:
            together = partly_overlapped(compute, exchange, named["overlap"])
        return np.asarray(np.log(together * self.scope.unit_seconds))

    def log_compute_seconds(self, draws: Array, at: Settings) -> Array:
        """Logarithm of the seconds that are not exchange, in the same shape as `log_seconds`."""
        compute = sum(self.compute(self._named(draws), self.placed(at)).values())
        return np.asarray(np.log(compute * self.scope.unit_seconds))

    def parts(self, draws: Array, at: Settings) -> dict[str, Array]:
        """All parts of a step, in units of one worker's step, before any overlap."""
        named, at = self._named(draws), self.placed(at)
        return self.compute(named, at) | self.exchange(named, at)

    def _named(self, draws: Array) -> Mapping[str, Array]:
        return dict(zip(self.parameters, np.exp(draws).T[:, :, None], strict=True))


def partly_overlapped(compute: Array, exchange: Array, overlap: Array) -> Array:
    """(C^γ + N^γ)^(1/γ) with γ = 1 + overlap: from C + N, without overlap, to max(C, N)."""
    power = np.minimum(1 + overlap, _MAX_OVERLAP)
    larger = np.maximum(compute, exchange)
    return np.asarray(larger * ((compute / larger) ** power + (exchange / larger) ** power) ** (1 / power))


def _grown(members: Array) -> dict[Shape, Array]:
    return {
        "ring": (1 - 1 / members) / (1 - 1 / _MEMBERS),
        "tree": np.log(members) / np.log(_MEMBERS),
        "gather": (members - 1) / (_MEMBERS - 1),
    }

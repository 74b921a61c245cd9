"""Laws of a step's time: compute that is shared and waits for the slowest, exchange inside and between nodes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Shape = Literal["ring", "tree", "gather"]

# How the exchange grows with its members x, scaled to 1 at four of them. Ring: (x − 1)/x, what each sends in an
# all-reduce, nearly constant. Tree: log x, rounds. Gather: x − 1, all to one or each to all.
_MEMBERS = 4.0
# How likely each is before any data: among workers that share a node, and among nodes.
INSIDE: dict[Shape, float] = {"ring": 0.65, "gather": 0.35}
BETWEEN: dict[Shape, float] = {"ring": 0.45, "tree": 0.45, "gather": 0.1}
# Where a table does not tell nodes there may be some all the same, of one of these sizes, and how likely that is.
UNTOLD_SIZES = (4, 8, 16)
UNTOLD = 0.5

_MAX_OVERLAP = 20.0


@dataclass(frozen=True)
class Prior:
    """What is expected of a positive quantity before any data: its median, and its spread in logarithms."""

    median: float
    spread: float


# Times are in units of one worker's step at the typical batch; all medians are of ordinary training on GPUs.
PRIORS: dict[str, Prior] = {
    "compute": Prior(0.95, 0.7),  # at the typical batch
    "fixed": Prior(0.1, 1.5),  # compute that does not depend on the batch, for each part that is in proportion to it
    "sharing": Prior(0.003, 1.5),  # compute is slower by this for each doubling of workers on a node
    "slowest": Prior(0.004, 1.0),  # spread between workers; the slowest of n lags by about √(2 ln n) of it
    "exchange": Prior(0.1, 1.6),  # of four workers, where nodes are not known
    "inside": Prior(0.1, 1.6),  # exchange of four workers that share a node
    "leaving": Prior(0.03, 1.8),  # exchange as soon as there are two nodes
    "between": Prior(0.03, 1.5),  # and more of it as nodes are added, at four of them
    "uplink": Prior(0.03, 1.5),  # and more of it as a node's workers share its link, at four nodes of four
    "latency": Prior(2e-4, 1.5),  # for each further worker, whatever its node
    "overlap": Prior(1.0, 1.0),  # γ − 1 where exchange is hidden behind compute: (C^γ + N^γ)^(1/γ)
}
COMPUTE = ("compute", "slowest", "sharing")
"""Parts of a step that are no exchange."""

_EXCHANGE = ("exchange", "latency")
_EXCHANGE_OF_NODES = ("inside", "leaving", "between", "uplink", "latency")


@dataclass(frozen=True, eq=False)
class Settings:
    """Where a law is asked for the step's time."""

    workers: Array
    nodes: Array | None
    batch: Array | None
    capacity: float | None = None
    """How many workers a node has room for; None where that is not known."""

    @cached_property
    def per_node(self) -> Array:
        """Workers on the fullest node: as many as it has room for where there are no more nodes than it takes."""
        if self.nodes is None:
            return self.workers
        spread = self.workers / self.nodes
        if self.capacity is None:
            return spread
        filled = self.nodes == np.ceil(self.workers / self.capacity)
        return np.where(filled, np.minimum(self.workers, self.capacity), spread)

    def where(self, chosen: "slice | npt.NDArray[np.bool_]") -> "Settings":
        """Some of them."""
        nodes, batch = (None if column is None else column[chosen] for column in (self.nodes, self.batch))
        return Settings(self.workers[chosen], nodes, batch, self.capacity)

    def on_nodes_of(self, capacity: float) -> "Settings":
        """The same workers on as few nodes as it takes."""
        return Settings(self.workers, np.ceil(self.workers / capacity), self.batch, capacity)


@dataclass(frozen=True, eq=False)
class Law:
    """One law of the family. Parameters are logarithms, one row of them per draw."""

    inside: Shape
    between: Shape | None
    """None where nodes are not known."""

    overlaps: bool
    unit_seconds: float
    """What times are counted in."""

    typical_batch: float | None
    """None where the batch is not known."""

    node_size: int | None = None
    """Workers on a node, where the table does not tell nodes and the law supposes some."""

    share: float = 1.0
    """How likely it is before any data, beside the others."""

    @property
    def name(self) -> str:
        """As a person says it."""
        nodes = "nodes" if self.node_size is None else f"nodes of {self.node_size}"
        shapes = self.inside if self.between is None else f"{self.inside} inside and {self.between} between {nodes}"
        return f"{shapes}, {'partly hidden' if self.overlaps else 'not hidden'}"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters, in order."""
        names = ["compute", "slowest"]
        names += ["fixed"] if self.typical_batch is not None else []
        names += _EXCHANGE if self.between is None else ("sharing", *_EXCHANGE_OF_NODES)
        names += ["overlap"] if self.overlaps else []
        return tuple(names)

    @cached_property
    def centre(self) -> Array:
        """The median of the prior."""
        return np.log([PRIORS[name].median for name in self.parameters])

    @cached_property
    def spread(self) -> Array:
        """The spread of the prior."""
        return np.array([PRIORS[name].spread for name in self.parameters])

    def log_seconds(self, draws: Array, at: Settings) -> Array:
        """Logarithm of the step's seconds: a row per draw, a column per setting."""
        named, at = self._named(draws), self._placed(at)
        compute = sum(self._compute(named, at).values())
        exchange = sum(self._exchange(named, at).values())
        together = compute + exchange
        if self.overlaps:
            power = np.minimum(1 + named["overlap"], _MAX_OVERLAP)
            larger = np.maximum(compute, exchange)
            together = larger * ((compute / larger) ** power + (exchange / larger) ** power) ** (1 / power)
        return np.asarray(np.log(together * self.unit_seconds))

    def parts(self, draws: Array, at: Settings) -> dict[str, Array]:
        """What a step is made of, in units of one worker's step, before anything is hidden; shaped as the above."""
        named, at = self._named(draws), self._placed(at)
        return self._compute(named, at) | self._exchange(named, at)

    @property
    def exchanging(self) -> npt.NDArray[np.bool_]:
        """Which of the parameters are about the exchange."""
        return np.array([name in _EXCHANGE + _EXCHANGE_OF_NODES for name in self.parameters])

    def _placed(self, at: Settings) -> Settings:
        return at if self.node_size is None else at.on_nodes_of(self.node_size)

    def _named(self, draws: Array) -> Mapping[str, Array]:
        values = np.exp(draws)
        return {name: values[:, [index]] for index, name in enumerate(self.parameters)}

    def _compute(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        alone = named["compute"] * np.ones_like(at.workers)
        if self.typical_batch is not None and at.batch is not None:
            alone = named["compute"] * (at.batch / self.typical_batch + named["fixed"]) / (1 + named["fixed"])
        parts = {"compute": alone, "slowest": alone * named["slowest"] * np.sqrt(2 * np.log(at.workers))}
        if self.between is not None:
            parts["sharing"] = alone * named["sharing"] * np.log2(at.per_node)
        return parts

    def _exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        on_node = _grown(self.inside, at.per_node)
        latency = named["latency"] * (at.workers - 1)
        if self.between is None or at.nodes is None:
            return {"exchange": named["exchange"] * on_node, "latency": latency}
        several = at.nodes > 1
        leaving = named["leaving"] + named["between"] * _grown(self.between, at.nodes)
        return {
            "inside": named["inside"] * on_node,
            "uplink": named["uplink"] * _grown("tree", at.per_node) * _grown("ring", at.nodes),
            "between": np.where(several, leaving, 0.0),
            "latency": latency,
        }


def family(unit_seconds: float, typical_batch: float | None, counts: Array, *, knows_nodes: bool) -> tuple[Law, ...]:
    """All laws that are compared, each with and without hiding, for a table of these counts of workers."""
    kinds: list[tuple[Shape, Shape | None, int | None, float]]
    if knows_nodes:
        kinds = [(i, b, None, INSIDE[i] * BETWEEN[b]) for i in INSIDE for b in BETWEEN]
    else:
        sizes = [size for size in UNTOLD_SIZES if counts.min() <= size < counts.max()]
        kinds = [(i, None, None, INSIDE[i] * (1 - UNTOLD * bool(sizes))) for i in INSIDE]
        kinds += [("ring", b, size, UNTOLD * BETWEEN[b] / len(sizes)) for b in BETWEEN for size in sizes]
    return tuple(
        Law(inside, between, overlaps, unit_seconds, typical_batch, size, share)
        for inside, between, size, share in kinds
        for overlaps in (False, True)
    )


def _grown(shape: Shape, members: Array) -> Array:
    if shape == "ring":
        return (1 - 1 / members) / (1 - 1 / _MEMBERS)
    if shape == "tree":
        return np.asarray(np.log(members) / np.log(_MEMBERS))
    return (members - 1) / (_MEMBERS - 1)

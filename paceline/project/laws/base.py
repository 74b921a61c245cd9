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
# How likely each is before any data: among workers of whom nodes are not known, that share a node, and among nodes.
ANYWHERE: dict[Shape, float] = {"ring": 0.65, "gather": 0.35}
INSIDE: dict[Shape, float] = {"ring": 0.75, "gather": 0.25}
BETWEEN: dict[Shape, float] = {"ring": 0.45, "tree": 0.45, "gather": 0.1}
# How likely it is that the nodes a table tells make no difference: one server, or one link, for all.
BLIND = 0.03
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

    @cached_property
    def lag(self) -> Array:
        """How many spreads the slowest of the workers is behind, about."""
        return np.asarray(np.sqrt(2 * np.log(self.workers)))

    @cached_property
    def grown_inside(self) -> dict[Shape, Array]:
        """How far an exchange of each shape has grown with the workers on a node."""
        return _grown(self.per_node)

    @cached_property
    def grown_between(self) -> dict[Shape, Array]:
        """And with the nodes."""
        return _grown(np.ones_like(self.workers) if self.nodes is None else self.nodes)

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
        named, at = self._named(draws), self.placed(at)
        compute = np.asarray(sum(self._compute(named, at).values()))
        exchange = np.asarray(sum(self._exchange(named, at).values()))
        together = compute + exchange
        if self.overlaps:
            together = partly_hidden(compute, exchange, named["overlap"])
        return np.asarray(np.log(together * self.unit_seconds))

    def log_compute_seconds(self, draws: Array, at: Settings) -> Array:
        """The same of what is no exchange."""
        compute = sum(self._compute(self._named(draws), self.placed(at)).values())
        return np.asarray(np.log(compute * self.unit_seconds))

    def parts(self, draws: Array, at: Settings) -> dict[str, Array]:
        """What a step is made of, in units of one worker's step, before anything is hidden; shaped as the above."""
        named, at = self._named(draws), self.placed(at)
        return self._compute(named, at) | self._exchange(named, at)

    @property
    def exchanging(self) -> npt.NDArray[np.bool_]:
        """Which of the parameters are about the exchange."""
        return np.array([name in _EXCHANGE + _EXCHANGE_OF_NODES for name in self.parameters])

    def placed(self, at: Settings) -> Settings:
        """The settings on the nodes that the law supposes, or on none where to it they make no difference."""
        if self.between is None and at.nodes is not None:
            return Settings(at.workers, None, at.batch)
        if self.node_size is None or at.capacity == self.node_size:
            return at
        return at.on_nodes_of(self.node_size)

    def _named(self, draws: Array) -> Mapping[str, Array]:
        return dict(zip(self.parameters, np.exp(draws).T[:, :, None], strict=True))

    def _compute(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        alone = named["compute"] * np.ones_like(at.workers)
        if self.typical_batch is not None and at.batch is not None:
            alone = named["compute"] * (at.batch / self.typical_batch + named["fixed"]) / (1 + named["fixed"])
        parts = {"compute": alone, "slowest": alone * named["slowest"] * at.lag}
        if self.between is not None:
            parts["sharing"] = alone * named["sharing"] * np.log2(at.per_node)
        return parts

    def _exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        on_node = at.grown_inside[self.inside]
        latency = named["latency"] * (at.workers - 1)
        if self.between is None or at.nodes is None:
            return {"exchange": named["exchange"] * on_node, "latency": latency}
        several = at.nodes > 1
        leaving = named["leaving"] + named["between"] * at.grown_between[self.between]
        return {
            "inside": named["inside"] * on_node,
            "uplink": named["uplink"] * at.grown_inside["tree"] * at.grown_between["ring"],
            "between": np.where(several, leaving, 0.0),
            "latency": latency,
        }


def family(unit_seconds: float, typical_batch: float | None, counts: Array, *, knows_nodes: bool) -> tuple[Law, ...]:
    """All laws that are compared, each with and without hiding, for a table of these counts of workers."""
    kinds: list[tuple[Shape, Shape | None, int | None, float]]
    if knows_nodes:
        kinds = [(i, b, None, (1 - BLIND) * x * y) for i, x in INSIDE.items() for b, y in BETWEEN.items()]
        kinds += [(i, None, None, BLIND * share) for i, share in ANYWHERE.items()]
    else:
        sizes = [size for size in UNTOLD_SIZES if counts.min() <= size < counts.max()]
        kinds = [(i, None, None, share * (1 - UNTOLD * bool(sizes))) for i, share in ANYWHERE.items()]
        kinds += [("ring", b, size, UNTOLD * BETWEEN[b] / len(sizes)) for b in BETWEEN for size in sizes]
    return tuple(
        Law(inside, between, overlaps, unit_seconds, typical_batch, size, share)
        for inside, between, size, share in kinds
        for overlaps in (False, True)
    )


def partly_hidden(compute: Array, exchange: Array, overlap: Array) -> Array:
    """(C^γ + N^γ)^(1/γ) with γ = 1 + overlap: from C + N, where nothing is hidden, to the larger of both."""
    power = np.minimum(1 + overlap, _MAX_OVERLAP)
    larger = np.maximum(compute, exchange)
    return np.asarray(larger * ((compute / larger) ** power + (exchange / larger) ** power) ** (1 / power))


def _grown(members: Array) -> dict[Shape, Array]:
    return {
        "ring": (1 - 1 / members) / (1 - 1 / _MEMBERS),
        "tree": np.log(members) / np.log(_MEMBERS),
        "gather": (members - 1) / (_MEMBERS - 1),
    }

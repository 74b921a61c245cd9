"""A law with nodes: workers exchange inside each node, and nodes exchange over links that their workers share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from paceline.project.laws.base import LATENCY, NODE_COST, Array, Law, Prior, Scope, Settings, Shape
from paceline.project.laws.flat import NODES_DO_NOT_MATTER

INSIDE: dict[Shape, float] = {"ring": 0.75, "gather": 0.25}
BETWEEN: dict[Shape, float] = {"ring": 0.45, "tree": 0.45, "gather": 0.1}
"""The prior weight of each shape, inside a node and between nodes."""

_CROSSING = ("leaving", "between", "uplink")


@dataclass(frozen=True, eq=False, kw_only=True)
class NodesLaw(Law):
    """With m nodes of k workers: shape(k) inside; a jump at two nodes, shape(m) and ring(m) · log k between them."""

    inside: Shape
    between: Shape

    # Compute slows down by this for each doubling of the workers on a node.
    extra_compute: ClassVar[Mapping[str, Prior]] = {"sharing": Prior(0.003, 1.5)}
    priors: ClassVar[Mapping[str, Prior]] = {
        "inside": Prior(0.1, 1.6),  # exchange of four workers that share a node
        "leaving": Prior(NODE_COST, 1.8),  # exchange as soon as there are two nodes
        "between": Prior(NODE_COST, 1.5),  # what further nodes add to it, at four nodes
        "uplink": Prior(NODE_COST, 1.5),  # what workers add that share a node's link, at four nodes of four workers
        "latency": LATENCY,
    }
    limits: ClassVar[Mapping[str, str]] = {
        "inside": "bandwidth inside a node",
        "uplink": "bandwidth between nodes",
        "between": "bandwidth between nodes",
        "latency": "latency",
    }
    crossing: ClassVar[frozenset[str]] = frozenset({"uplink", "between"})

    @property
    def exchange_priors(self) -> Mapping[str, Prior]:
        """The priors, with the believed cost of a second node."""
        return {
            name: replace(prior, median=self.scope.node_cost) if name in _CROSSING else prior
            for name, prior in self.priors.items()
        }

    @property
    def exchange_name(self) -> str:
        """The names of both shapes."""
        return f"{self.inside} inside and {self.between} between nodes"

    def compute(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """Compute as in all laws, slowed down where workers share a node."""
        parts = super().compute(named, at)
        return {**parts, "sharing": parts["compute"] * named["sharing"] * np.log2(at.per_node)}

    def exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """The exchange inside nodes, between them and over the links that workers share, and latency."""
        assert at.nodes is not None, "this law needs settings with nodes"
        crossing = named["leaving"] + named["between"] * at.grown_between[self.between]
        return {
            "inside": named["inside"] * at.grown_inside[self.inside],
            "uplink": named["uplink"] * at.grown_inside["tree"] * at.grown_between["ring"],
            "between": np.where(at.nodes > 1, crossing, 0.0),
            "latency": named["latency"] * (at.workers - 1),
        }


def members(scope: Scope) -> Iterator[NodesLaw]:
    """Every pair of shapes, with and without overlap, where the table gives nodes."""
    if not scope.knows_nodes:
        return
    for inside, first in INSIDE.items():
        for between, second in BETWEEN.items():
            share = (1 - NODES_DO_NOT_MATTER) * first * second
            for overlaps in (False, True):
                yield NodesLaw(scope=scope, overlaps=overlaps, share=share, inside=inside, between=between)

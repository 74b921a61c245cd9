"""A law with nodes: workers exchange inside each node, and nodes exchange over links that their workers share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from paceline.project.laws.base import LATENCY, Array, Law, Prior, Scope, Settings, Shape
from paceline.project.laws.flat import NODES_DO_NOT_MATTER

INSIDE: dict[Shape, float] = {"ring": 0.75, "gather": 0.25}
BETWEEN: dict[Shape, float] = {"ring": 0.45, "tree": 0.45, "gather": 0.1}
"""The prior weight of each shape, inside a node and between nodes."""

AS_INSIDE = Prior(1.65, 0.7)
"""Where an exchange grows with every worker on a node: what a second node costs, divided by four workers' exchange."""

DOUBLES_AT = 0.15
"""Without rows on several nodes: the exchange of four workers on a node that doubles the believed cost of leaving it.

Both carry the same bytes, so a model whose exchange is long inside a node loses more at its border.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class NodesLaw(Law):
    """With m nodes of k workers: shape(k) inside; a jump at two nodes, shape(m) and ring(m) · log k between them."""

    inside: Shape
    between: Shape

    # Compute slows down by this for each doubling of the workers on a node.
    extra_compute: ClassVar[Mapping[str, Prior]] = {"sharing": Prior(0.003, 1.5)}
    priors: ClassVar[Mapping[str, Prior]] = {
        "inside": Prior(0.1, 1.6),  # exchange of four workers that share a node
        "leaving": Prior(0.03, 1.8),  # exchange as soon as there are two nodes
        "between": Prior(0.03, 1.5),  # what further nodes add to it, at four nodes
        "uplink": Prior(0.03, 1.5),  # what workers add that share a node's link, at four nodes of four workers
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
        if not self._of_one_node:
            return self.priors
        cost = self.scope.node_cost
        leaving = AS_INSIDE if self.inside == "gather" else Prior(cost, 1.2)
        return {**self.priors, "leaving": leaving, "between": Prior(cost / 2, 1.0), "uplink": Prior(cost / 5, 1.2)}

    @property
    def _of_one_node(self) -> bool:
        """Whether all rows are on one node, so that the cost of a second one is only believed."""
        return self.scope.knows_nodes and not self.scope.leaves_node

    @property
    def exchange_name(self) -> str:
        """The names of both shapes; of what happens between nodes only where rows show it."""
        return (
            f"{self.inside} inside a node"
            if self._of_one_node
            else f"{self.inside} inside and {self.between} between nodes"
        )

    def compute(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """Compute as in all laws, slowed down where workers share a node."""
        parts = super().compute(named, at)
        return {**parts, "sharing": parts["compute"] * named["sharing"] * np.log2(at.per_node)}

    def exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """The exchange inside nodes, between them and over the links that workers share, and latency."""
        assert at.nodes is not None, "this law needs settings with nodes"
        inside = named["inside"]
        growth = jump = np.ones_like(inside)
        if self._of_one_node:
            growth = 1 + inside / DOUBLES_AT
            jump = inside if self.inside == "gather" else growth
        crossing = jump * named["leaving"] + growth * named["between"] * at.grown_between[self.between]
        return {
            "inside": inside * at.grown_inside[self.inside],
            "uplink": growth * named["uplink"] * at.grown_inside["tree"] * at.grown_between["ring"],
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

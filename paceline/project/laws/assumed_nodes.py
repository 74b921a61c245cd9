"""A law that assumes nodes for tables without them: a jump between rows may be the boundary of a node."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from paceline.project.laws.base import Scope, Settings
from paceline.project.laws.nodes import BETWEEN, NodesLaw

SIZES = (4, 8, 16)
"""Common numbers of workers per node."""

ODDS = 1.0
"""Prior weight of all these laws together, relative to laws without nodes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AssumedNodesLaw(NodesLaw):
    """The law with nodes, assuming that each node holds `node_size` workers."""

    node_size: int

    # Nodes are only assumed, so no limit is named after them.
    limits: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("inside", "uplink", "between"), "bandwidth"),
        "latency": "latency",
    }

    @property
    def exchange_name(self) -> str:
        """Both shapes, and the assumed node size."""
        return f"{super().exchange_name} of {self.node_size}"

    def placed(self, at: Settings) -> Settings:
        """The workers on as few nodes of the assumed size as possible."""
        return at if at.capacity == self.node_size else at.on_nodes_of(self.node_size)


def members(scope: Scope) -> Iterator[AssumedNodesLaw]:
    """Every shape for every node size from the smallest worker count of the table to below the largest."""
    sizes = [size for size in SIZES if scope.counts.min() <= size < scope.counts.max()]
    if scope.knows_nodes:
        return
    for between, share in BETWEEN.items():
        for size in sizes:
            for overlaps in (False, True):
                yield AssumedNodesLaw(
                    scope=scope,
                    overlaps=overlaps,
                    share=ODDS * share / len(sizes),
                    inside="ring",
                    between=between,
                    node_size=size,
                )

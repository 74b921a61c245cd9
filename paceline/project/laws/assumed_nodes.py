"""A law for tables without nodes that supposes some: a jump in the rows may be the edge of a node."""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.project.laws.base import Scope, Settings
from paceline.project.laws.nodes import BETWEEN, NodesLaw

SIZES = (4, 8, 16)
"""Workers on a node, as machines are usually built."""

ODDS = 1.0
"""How likely all of these are together, relative to workers that have no nodes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AssumedNodesLaw(NodesLaw):
    """The law with nodes, each of which is supposed to hold `node_size` workers."""

    node_size: int

    @property
    def exchange_name(self) -> str:
        """Both shapes, and the size that is supposed."""
        return f"{super().exchange_name} of {self.node_size}"

    def placed(self, at: Settings) -> Settings:
        """On as few nodes of the supposed size as it takes."""
        return at if at.capacity == self.node_size else at.on_nodes_of(self.node_size)


def members(scope: Scope) -> Iterator[AssumedNodesLaw]:
    """Every shape between nodes of every size that has counts of the table on both sides of its edge."""
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

"""A law without nodes: all workers exchange in the same way, as a ring or through one of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from paceline.project.laws.base import LATENCY, Array, Law, Prior, Scope, Settings, Shape

SHARES: dict[Shape, float] = {"ring": 0.65, "gather": 0.35}
"""The prior weight of each shape."""

NODES_DO_NOT_MATTER = 0.03
"""The prior weight of nodes making no difference: one server, or one link, for all workers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatLaw(Law):
    """One exchange among all workers: shape(n) and n − 1 latencies."""

    shape: Shape

    priors: ClassVar[Mapping[str, Prior]] = {"exchange": Prior(0.1, 1.6), "latency": LATENCY}  # of four workers
    limits: ClassVar[Mapping[str, str]] = {"exchange": "bandwidth", "latency": "latency"}

    @property
    def exchange_name(self) -> str:
        """The name of the shape."""
        return self.shape

    def placed(self, at: Settings) -> Settings:
        """The settings without nodes, which make no difference to this law."""
        return at if at.nodes is None else Settings(at.workers, None, at.batch)

    def exchange(self, named: Mapping[str, Array], at: Settings) -> dict[str, Array]:
        """Transfer time that grows with the number of workers, and latency."""
        return {
            "exchange": named["exchange"] * at.grown_inside[self.shape],
            "latency": named["latency"] * (at.workers - 1),
        }


def members(scope: Scope) -> Iterator[FlatLaw]:
    """Every shape, with and without overlap."""
    likely = NODES_DO_NOT_MATTER if scope.knows_nodes else 1.0
    for shape, share in SHARES.items():
        for overlaps in (False, True):
            yield FlatLaw(scope=scope, overlaps=overlaps, share=likely * share, shape=shape)

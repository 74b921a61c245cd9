"""What a second node is believed to cost, chosen over tables of several clusters, each of them left out in turn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.project.laws.base import NODE_COSTS
from paceline.project.laws.check import Checked, check
from paceline.project.laws.heldout import HeldOutTable


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A cluster's tables, projected with the cost that the tables of all other clusters choose."""

    cluster: str
    node_cost: float
    checked: tuple[Checked, ...]


def left_out(cases: Sequence[HeldOutTable]) -> list[LeftOut]:
    """Every cluster in turn; empty where there are fewer than two."""
    clusters = list(dict.fromkeys(case.cluster for case in cases if case.cluster is not None))
    if len(clusters) < 2:
        return []
    tried = {cost: [check(case, cost) for case in cases if case.cluster] for cost in NODE_COSTS}
    found = []
    for cluster in clusters:
        others = {cost: [one for one in each if one.case.cluster != cluster] for cost, each in tried.items()}
        cost = best_cost(others)
        found.append(LeftOut(cluster, cost, tuple(one for one in tried[cost] if one.case.cluster == cluster)))
    return found


def best_cost(tried: dict[float, list[Checked]]) -> float:
    """The cost with the least mean error, where every cluster and workload counts once."""

    def error(checked: Sequence[Checked]) -> float:
        by_kind: dict[tuple[str | None, str | None], list[float]] = {}
        for one in checked:
            by_kind.setdefault((one.case.cluster, one.case.workload), []).extend(np.abs(one.signed).tolist())
        return float(np.mean([np.mean(errors) for errors in by_kind.values()]))

    return min(tried, key=lambda cost: error(tried[cost]))

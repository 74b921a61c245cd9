"""What a second node is believed to cost, chosen over tables of several clusters, each of them left out in turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from paceline.project.laws.base import NODE_COST, NODE_COSTS
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
        cost = believed_cost(others)
        found.append(LeftOut(cluster, cost, tuple(check(case, cost) for case in cases if case.cluster == cluster)))
    return found


def believed_cost(tried: Mapping[float, Sequence[Checked]]) -> float:
    """The geometric mean of the costs that suit every cluster and workload best, and of `NODE_COST` as one more.

    One cluster says little about another, so a few of them only shift what is believed without any. Where rows show
    several nodes, all costs suit alike, and nothing follows.
    """
    by_kind: dict[tuple[str, str], dict[float, float]] = {}
    for cost, checked in tried.items():
        for kind, same in groupby(sorted(checked, key=_kind), key=_kind):
            errors = np.concatenate([np.abs(one.signed) for one in same])
            by_kind.setdefault(kind, {})[cost] = float(errors.mean())
    chosen = [
        min(errors, key=lambda cost: errors[cost]) for errors in by_kind.values() if len(set(errors.values())) > 1
    ]
    return float(np.exp(np.mean(np.log([*chosen, NODE_COST]))))


def _kind(one: Checked) -> tuple[str, str]:
    return one.case.cluster or "", one.case.workload or ""

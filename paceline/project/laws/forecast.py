"""From a table to a curve: the laws' draws at each point as bands, the knee, and the limiting part of a step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.errors import DataError
from paceline.project.curve import (
    REACH,
    Knee,
    Point,
    Projected,
    ProjectedCurve,
    batch_at,
    far_beyond,
    global_batch,
    knee,
    require_near_batches,
    require_within_reach,
)
from paceline.project.laws.base import COMPUTE_LIMITS, NODE_COST, Array, Settings
from paceline.project.laws.fit import Posterior, fit
from paceline.project.laws.table import ScalingTable

# Each doubling beyond the largest measured count adds this much error to every law, and this share of the exchange
# to its error. The second error shrinks as more counts show how the exchange grows.
DRIFT, DRIFT_OF_EXCHANGE = 0.0125, 0.1
# What crosses nodes differs from place to place (workers and nodes) by this much in logarithms, more than any law
# says. One place on several nodes is as uncertain as another; from about this many on, the rows' noise shows it.
PLACE, _FEW_PLACES = 0.35, 4.0
_ENDS_80, _ENDS_95 = (0.1, 0.9), (0.025, 0.975)
# Priors are wider than most tables need, because a few tables are outliers. So the 80 % band omits this share of the
# draws' spread where rows are few, less with more rows, and none from this many on. The 95 % band omits nothing.
_PRIOR_EXCESS, _MANY_ROWS = 0.3, 16.0
# Most of all where no row shows a second node: the priors of its cost hold for slow networks, too.
_UNSEEN_EXCESS = 0.85
REACH_OF_TWO = 64
"""The largest multiple of the largest count that may be requested with only two counts; `_FAR` times warns."""

_FAR = 8
_NOISY = 0.10
# The largest factor between the laws and one row, and between the laws and the median of all rows of a count.
_HOPELESS, _HOPELESS_COUNT = 3.0, 1.5
# Where rows are many and this share of them at most is that far away, it is a warning.
_FEW_STRANGE = 0.2
_WORTH_NAMING = 0.05
_AT_ONCE = 2048

VALIDATED_ON = "published tables and Pollux's measurements with their largest rows hidden: docs/how-well-it-projects.md"


@dataclass(frozen=True, eq=False)
class Forecast:
    """Laws fitted to a table, ready to project from."""

    table: ScalingTable
    posterior: Posterior

    def curve(self, points: Sequence[Point]) -> ProjectedCurve:
        """The answer at every point, in the requested order; refuses points far beyond the table."""
        warnings = [*self.table.warnings, *self._about(points)]
        at = self.settings(points)
        middle, low80, high80, low95, high95 = (np.exp(line) for line in self.bands(at))
        rates = [self.table.throughput(at, seconds) for seconds in (middle, high80, low80, high95, low95)]
        limits = self._limits(at)
        projected = tuple(
            Projected(
                point=Point(point.workers, None if at.nodes is None else int(at.nodes[i]), _batch(at, i)),
                throughput=_value(rates[0], i),
                step_seconds=float(middle[i]) if self.table.is_step_time else None,
                low80=_value(rates[1], i),
                high80=_value(rates[2], i),
                low95=_value(rates[3], i),
                high95=_value(rates[4], i),
                limit=limits[i],
            )
            for i, point in enumerate(points)
        )
        found = self._knee(points)
        notes = tuple(dict.fromkeys(warnings))
        return ProjectedCurve(self._law(), projected, found.workers, VALIDATED_ON, notes, found.weak)

    def settings(self, points: Sequence[Point]) -> Settings:
        """Points as settings of the laws; what a point leaves open is taken from the table's largest row."""
        own = self.table.at
        workers = np.array([point.workers for point in points], float)
        nodes = batch = capacity = None
        if own.nodes is not None and own.capacity is not None:
            # Nodes fill up as in the table; a table measured on one node stays on one node.
            room = own.capacity if own.nodes.max() > 1 else math.inf
            nodes = np.array(
                [max(1, math.ceil(p.workers / room)) if p.nodes is None else p.nodes for p in points], float
            )
            capacity = _room(workers, nodes, own.capacity)
        if own.batch is not None:
            last = float(own.batch[-1])
            batch = np.array([last if point.batch is None else point.batch for point in points], float)
        return Settings(workers, nodes, batch, capacity)

    def bands(self, at: Settings) -> tuple[Array, ...]:
        """Logarithms of the step's seconds: the median, and the ends of the 80 % and 95 % bands."""
        chunks = []
        for start in range(0, len(at.workers), _AT_ONCE):  # ten thousand points must not fill the memory
            part = slice(start, start + _AT_ONCE)
            drawn = self.posterior.log_seconds(at.where(part))
            middle = np.median(drawn, axis=0)
            noise = np.hypot(self.posterior.noise[:, None], self._drift(at.where(part)))
            strays = self.posterior.strays[:, None] * noise
            if at.nodes is not None:
                strays += self.posterior.log_seconds_elsewhere(at.where(part), self._unseen(at.where(part))) - drawn
            kept = 1 - self._excess(at.where(part))
            ends80 = np.quantile(middle + kept * (drawn - middle) + strays, _ENDS_80, axis=0)
            ends95 = np.quantile(drawn + strays, _ENDS_95, axis=0)
            chunks.append(np.concatenate([middle[None, :], ends80, ends95]))
        return tuple(np.concatenate(chunks, axis=1))

    def _excess(self, at: Settings) -> Array:
        """The share of the draws' spread that the 80 % band omits."""
        own, share = self.table.at, np.full_like(at.workers, _PRIOR_EXCESS)
        if at.nodes is not None and own.nodes is not None and own.nodes.max() == 1:
            share = np.where(at.nodes > 1, _UNSEEN_EXCESS, _PRIOR_EXCESS)
        return np.asarray(share * max(0.0, 1 - self.posterior.weight / _MANY_ROWS))

    def _unseen(self, at: Settings) -> Array:
        """The spread, in logarithms, of what crosses nodes around its law, at places that the table does not have."""
        own = self.table.at
        assert own.nodes is not None, "only a table with nodes shows what crosses them"
        assert at.nodes is not None, "settings of such a table have nodes"
        known = {place for place in zip(own.workers, own.nodes, strict=True) if place[1] > 1}
        if not known:
            return np.zeros_like(at.workers)  # the prior is wide enough
        new = np.array([place not in known for place in zip(at.workers, at.nodes, strict=True)])
        filled = np.log2([[workers / nodes] for workers, nodes in known])
        otherwise_filled = np.abs(np.log2(at.workers / at.nodes) - filled).min(axis=0)  # doublings of workers on a node
        fewness = (1 + 1 / len(known)) * _FEW_PLACES / (_FEW_PLACES + len(known))
        return np.asarray(new * PLACE * (1 + otherwise_filled) * math.sqrt(fewness))

    def _drift(self, at: Settings) -> Array:
        beyond = np.log2(np.maximum(at.workers / self.table.counts[-1], 1))
        exchange = sum(share for name, share in self.posterior.composition(at).items() if name not in COMPUTE_LIMITS)
        return np.asarray(beyond * np.hypot(DRIFT, DRIFT_OF_EXCHANGE * exchange / (len(self.table.counts) - 1)))

    def _limits(self, at: Settings) -> list[str]:
        together: dict[str, Array] = {}
        for name, share in self.posterior.composition(at).items():
            limit = self.posterior.limits[name]
            together[limit] = together.get(limit, np.zeros_like(at.workers)) + share
        names = list(together)
        return [names[index] for index in np.argmax(np.stack(list(together.values())), axis=0)]

    def _knee(self, points: Sequence[Point]) -> Knee:
        """The knee up to the largest requested count, on nodes as full as the fullest requested."""
        batch = batch_at(points)
        fullest = None
        if self.table.at.nodes is not None:
            fullest = max((p.workers / p.nodes for p in points if p.nodes), default=None)

        def rates(counts: Sequence[int]) -> list[float]:
            nodes = [None if fullest is None else max(1, math.ceil(count / fullest)) for count in counts]
            at = self.settings([Point(n, m, batch(n)) for n, m in zip(counts, nodes, strict=True)])
            samples = at.workers * (1.0 if at.batch is None else at.batch)
            return [float(rate) for rate in samples / np.exp(np.median(self.posterior.log_seconds(at), axis=0))]

        return knee(rates, max(point.workers for point in points))

    def _law(self) -> str:
        shares = sorted(self.posterior.shares.items(), key=lambda item: -item[1])
        return "; ".join(f"{name} {share:.0%}" for name, share in shares if share >= _WORTH_NAMING)

    def _about(self, points: Sequence[Point]) -> list[str]:
        counts = self.table.counts
        largest = int(counts[-1])
        reach = REACH_OF_TWO if len(counts) == 2 else REACH
        require_within_reach(points, largest, f"{len(counts)} worker counts", reach)
        if self.table.at.batch is not None:
            require_near_batches(points, float(self.table.at.batch.min()), float(self.table.at.batch.max()))
        warnings = far_beyond(points, largest, _FAR)
        if len(counts) == 2:
            warnings.append("Two worker counts cannot distinguish the laws: much of the band comes from the priors.")
        if self.posterior.typical_noise > _NOISY:
            lie = f"{self.posterior.typical_noise:.0%}"
            warnings.append(f"Rows deviate from the laws by {lie}: something besides the worker count has changed.")
        warnings += self._unknown(points)
        return warnings

    def _unknown(self, points: Sequence[Point]) -> list[str]:
        own, warnings = self.table.at, []
        if own.nodes is None and any(point.nodes for point in points):
            warnings.append("The table has no column `nodes`: the requested nodes were ignored.")
        if own.nodes is not None and own.nodes.max() == 1:
            if any((point.nodes or 1) > 1 for point in points):
                warnings.append("All rows are from one node: the cost of a second node comes from the priors only.")
            elif max(point.workers for point in points) > self.table.counts[-1]:
                warnings.append("The projection assumes one node for all workers: otherwise give --workers-per-node.")
        if any(point.batch for point in points) and own.batch is None:
            warnings.append("The table has no column `batch`: the requested batch was ignored.")
        whole = None if own.batch is None else global_batch(own.workers.tolist(), own.batch.tolist())
        if whole is not None and own.batch is not None and any(point.batch is None for point in points):
            warnings.append(
                f"The rows divide a global batch of {whole:g} among their workers. This projection keeps batch "
                f"{own.batch[-1]:g} for every worker: to keep the global batch, give batches with --at."
            )
        one_batch = own.batch is not None and len(np.unique(own.batch)) == 1
        if own.batch is not None and one_batch and any(p.batch not in (None, own.batch[0]) for p in points):
            warnings.append("All rows have the same batch: how compute depends on it comes from the priors only.")
        return warnings


def forecast(table: ScalingTable, node_cost: float = NODE_COST) -> Forecast:
    """Fit the laws to a table. Rows that no law comes near are refused, or a warning where most others fit."""
    fitted = Forecast(table, fit(table.at, table.seconds, table.rest_seconds, node_cost))
    strange = _strange(fitted)
    if strange and table.sync_seconds is not None:  # too much may have been taken for synchronisation
        without = replace(table, sync_seconds=None)
        other = Forecast(without, fit(without.at, without.seconds, None, node_cost))
        if len(again := _strange(other)) < len(strange):
            warning = "sync_seconds were ignored: compute that they leave room for explains the rows less well."
            fitted, strange = replace(other, table=replace(without, warnings=(*table.warnings, warning))), again
    if not strange:
        return fitted
    worst = max(strange, key=lambda count: strange[count])
    rows = np.isin(table.at.workers, list(strange))
    away = f"{math.exp(strange[worst]):.2g} times away from what any scaling law predicts"
    if len(rows) < _MANY_ROWS or rows.mean() > _FEW_STRANGE:
        raise DataError(f"{table.name}: the row of {worst:.0f} workers is {away}: check it, or leave it out.")
    counts = ", ".join(f"{count:.0f}" for count in sorted(strange))
    warning = f"{rows.sum()} of {len(rows)} rows, of {counts} workers, are up to {away}: check them, or leave them out."
    return replace(fitted, table=replace(fitted.table, warnings=(*fitted.table.warnings, warning)))


def _strange(fitted: Forecast) -> dict[float, float]:
    """Counts that no law comes near, with the logarithm of the largest factor: half of their rows, or one very far."""
    table = fitted.table
    away = np.abs(fitted.bands(table.at)[0] - np.log(table.seconds))
    return {
        float(count): float(rows.max())
        for count in table.counts
        if (rows := away[table.at.workers == count]).max() > math.log(_HOPELESS)
        or np.median(rows) > math.log(_HOPELESS_COUNT)
    }


def _room(workers: Array, nodes: Array, of_table: float) -> float:
    """Workers that fit on a node: as in the table, or else the fewest that hold all requested workers."""
    asked = float(np.ceil(workers / nodes).max())
    for room in (of_table, asked):
        if np.all(nodes == np.ceil(workers / room)):
            return room
    return max(of_table, asked)


def _value(values: Array | None, index: int) -> float | None:
    return None if values is None else float(values[index])


def _batch(at: Settings, index: int) -> float | None:
    if at.batch is None:
        return None
    batch = float(at.batch[index])
    return int(batch) if batch.is_integer() else batch

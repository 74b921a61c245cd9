"""Laws fitted to a table: the most likely parameters, their uncertainty, and how well each law explains the rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from paceline.project.laws.base import COMPUTE_LIMITS, NODE_COST, Array, Law, Scope, Settings
from paceline.project.laws.catalogue import family

# Residuals are differences of logarithms. They are Student-t, so that one bad row does not dominate the fit.
_FREEDOM = 4.0
_LOG_DENSITY = math.lgamma((_FREEDOM + 1) / 2) - math.lgamma(_FREEDOM / 2) - 0.5 * math.log(_FREEDOM * math.pi)
NOISE = np.geomspace(0.2, 0.005, 7)
"""Candidate noise levels, the relative distance of rows from a law, from large to small."""

_NOISE_MEDIAN, _NOISE_SPREAD = 0.012, 0.8
# Rows of the same workers and nodes share the law's error there: m of them count as m^(1 − this).
_ALIKE = 0.75
# And all rows together count as this many at most: a law's misfit does not average out.
_MOST_WEIGHT = 35.0
# With at least this many repeats, their scatter counts. A normal standard deviation is this × the median distance.
_REPEATS, _DEVIATION = 3, 1.4826
# The step time without sync_seconds is an upper bound on compute; clock errors and omissions blur it by this share.
_BLUR = 0.2
_DRAWS = 512
_SEED = 20211
_DEAR = 2.0
_FEW = 16
_CANDIDATES = 1024
_WIDER = 1.2
_NEGLIGIBLE = 9.0
_STEP = 1e-5
_TOLERANCE = 1e-5
_SAME = 0.05
_MOST_EVALUATIONS = 400


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured step times, each with its weight."""

    at: Settings
    log_seconds: Array
    weight: Array
    scatter: float
    """The relative distance of repeats of a setting from their median; 0 where there are none."""

    log_rest: Array | None = None
    """Logarithm of the step time without synchronisation, an upper bound on compute; infinite where unknown."""


@dataclass(frozen=True, eq=False)
class Mode:
    """A law with its most likely parameters at one noise level, and their covariance."""

    law: Law
    noise: float
    centre: Array
    covariance: Array
    evidence: float
    """Logarithm of the probability of the rows under this law, up to a constant that all laws share."""


@dataclass(frozen=True, eq=False)
class LawDraws:
    """Draws of one law's parameters."""

    law: Law
    draws: Array
    noise: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws over all laws, in proportion to each law's evidence."""

    parts: tuple[LawDraws, ...]
    shares: dict[str, float]
    """How likely each law is, by name."""

    strays: Array
    """The distance of a new row from its law, by draw, in units of the noise; the same at every point."""

    places: Array
    """How far what crosses nodes is from its law at a new place, by draw, in units of its spread."""

    scatter: float
    """The distance of repeats from their median; the laws are fitted to the median."""

    weight: float
    """The effective number of rows: the sum of their weights."""

    @cached_property
    def noise(self) -> Array:
        """The relative distance of rows from a law, by draw."""
        of_laws = np.concatenate([np.full(len(part.draws), part.noise) for part in self.parts])
        return np.asarray(np.hypot(of_laws, self.scatter))

    @property
    def typical_noise(self) -> float:
        """The median noise over the draws."""
        return float(np.median(self.noise))

    def composition(self, at: Settings) -> dict[str, Array]:
        """The typical share of each part in a step before any overlap, by setting."""
        together: dict[str, list[Array]] = {}
        for part in self.parts:
            step_parts = part.law.parts(part.draws[:: max(1, len(part.draws) // _FEW)], at)
            whole = sum(step_parts.values())
            for name, seconds in step_parts.items():
                together.setdefault(name, []).append(len(part.draws) * (seconds / whole).mean(axis=0))
        return {name: np.sum(shares, axis=0) / len(self.noise) for name, shares in together.items()}

    @cached_property
    def limits(self) -> dict[str, str]:
        """The parts of a step in all laws, with the name of the limit when one of them dominates."""
        return {**COMPUTE_LIMITS, **{name: limit for part in self.parts for name, limit in part.law.limits.items()}}

    def log_seconds(self, at: Settings) -> Array:
        """Logarithm of the step's seconds: a row per draw, a column per setting."""
        return np.concatenate([part.law.log_seconds(part.draws, at) for part in self.parts])

    def log_seconds_elsewhere(self, at: Settings, spread: Array) -> Array:
        """The same where what crosses nodes differs from its law by this spread, in logarithms, by setting."""
        stretch = np.exp(self.places[:, None] * spread)
        rows = np.split(stretch, np.cumsum([len(part.draws) for part in self.parts])[:-1])
        return np.concatenate(
            [part.law.log_seconds(part.draws, at, own) for part, own in zip(self.parts, rows, strict=True)]
        )


def condensed(at: Settings, seconds: Array, rest: Array | None = None) -> Rows:
    """Replace repeats of a setting by their median; reduce the weight of rows with the same workers and nodes."""
    columns = [at.workers, *(column for column in (at.nodes, at.batch) if column is not None)]
    unique, group = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    group = group.reshape(-1)

    def medians(column: Array) -> Array:
        return np.array([np.median(np.log(column[group == index])) for index in range(len(unique))])

    logs = medians(seconds)
    repeats = np.bincount(group)
    places = 1 if at.nodes is None else 2
    _, place = np.unique(unique[:, :places], axis=0, return_inverse=True)
    alike = np.bincount(place.reshape(-1), weights=repeats)[place.reshape(-1)]
    nodes = None if at.nodes is None else unique[:, 1]
    batch = None if at.batch is None else unique[:, -1]
    apart = np.abs(np.log(seconds) - logs[group])[repeats[group] >= _REPEATS]
    scatter = _DEVIATION * float(np.median(apart)) if len(apart) else 0.0
    weight = repeats * alike**-_ALIKE
    weight *= min(1.0, _MOST_WEIGHT / weight.sum())
    return Rows(
        Settings(unique[:, 0], nodes, batch, at.capacity),
        logs,
        weight,
        scatter,
        None if rest is None else medians(rest),
    )


def fit(at: Settings, seconds: Array, rest: Array | None = None, node_cost: float = NODE_COST) -> Posterior:
    """Fit every law of the family to the rows together; `rest` is the step time without sync_seconds."""
    rows = condensed(at, seconds, rest)
    smallest = rows.at.workers == rows.at.workers.min()
    typical = None if rows.at.batch is None else float(np.exp(np.mean(np.log(rows.at.batch))))
    unit = float(np.exp(np.median(rows.log_seconds[smallest])))
    leaves_node = at.nodes is not None and bool(at.nodes.max() > 1)
    laws = family(Scope(unit, typical, rows.at.workers, at.nodes is not None, leaves_node, node_cost))
    return _drawn([mode for law in laws for mode in _modes(law, replace(rows, at=law.placed(rows.at)))], rows)


def _modes(law: Law, rows: Rows) -> list[Mode]:
    """The law's mode at each noise level, from large to small, until one is clearly worse than the best.

    There may be two modes: cheap exchange with scattered rows, or expensive exchange. The search starts from both.
    """
    modes_by_noise: list[Mode] = []
    starts = [law.centre, law.centre + _DEAR * law.spread * law.exchanging]
    for noise in NOISE:
        modes = [_mode(law, rows, float(noise), start) for start in starts]
        mode = max(modes, key=lambda mode: mode.evidence)
        starts = [each.centre for each in modes if each is mode or np.abs(each.centre - mode.centre).max() > _SAME]
        modes_by_noise.append(mode)
        if mode.evidence < max(other.evidence for other in modes_by_noise) - _NEGLIGIBLE:
            break
    return modes_by_noise


def _misfit(law: Law, rows: Rows, noise: float, draws: Array) -> Array:
    """A row per draw whose squares add up to −2 × the logarithm of the posterior density, up to a constant."""
    share = np.sqrt(rows.weight)
    misfit = [share * _robust(law.log_seconds(draws, rows.at) - rows.log_seconds, noise)]
    if rows.log_rest is not None:
        beyond = np.maximum(law.log_compute_seconds(draws, rows.at) - rows.log_rest, 0.0)
        misfit.append(share * _robust(beyond, _BLUR))
    return np.concatenate([*misfit, (draws - law.centre) / law.spread], axis=1)


def _robust(away: Array, noise: float) -> Array:
    """The residual whose square gives the Student-t log density."""
    return np.asarray(np.sign(away) * np.sqrt((_FREEDOM + 1) * np.log1p(away**2 / (_FREEDOM * noise**2))))


def _mode(law: Law, rows: Rows, noise: float, start: Array) -> Mode:
    """The most likely parameters, and the evidence by Laplace's approximation around them."""
    from scipy.optimize import least_squares  # slow to import

    def slope(parameters: Array) -> Array:
        values = _misfit(law, rows, noise, np.vstack([parameters, parameters + _STEP * np.eye(len(parameters))]))
        return np.asarray((values[1:] - values[0]).T / _STEP)

    best = least_squares(
        lambda parameters: _misfit(law, rows, noise, parameters[None, :])[0],
        start,
        jac=slope,
        method="lm",
        ftol=_TOLERANCE,
        xtol=_TOLERANCE,
        max_nfev=_MOST_EVALUATIONS,
    )
    curvature = best.jac.T @ best.jac
    evidence = rows.weight.sum() * (_LOG_DENSITY - math.log(noise)) - best.cost
    evidence -= np.log(law.spread).sum() + 0.5 * np.linalg.slogdet(curvature)[1]
    evidence -= 0.5 * (math.log(noise / _NOISE_MEDIAN) / _NOISE_SPREAD) ** 2
    return Mode(law, noise, best.x, np.linalg.inv(curvature), float(evidence) + math.log(law.share))


def _weighed(mode: Mode, rows: Rows, generator: np.random.Generator) -> tuple[Mode, Array, Array]:
    """Candidates around a mode, their importance weights, and the mode with corrected evidence.

    The posterior is not normal where two parameters trade off; the importance weights correct for that.
    """
    size = len(mode.centre)
    away = generator.standard_normal((_CANDIDATES, size))
    candidates = mode.centre + _WIDER * away @ np.linalg.cholesky(mode.covariance).T
    at_mode = _misfit(mode.law, rows, mode.noise, mode.centre[None, :])
    here = _misfit(mode.law, rows, mode.noise, candidates)
    log_weight = 0.5 * ((at_mode**2).sum() - (here**2).sum(axis=1) + (away**2).sum(axis=1)) + size * math.log(_WIDER)
    highest = log_weight.max()
    weight = np.exp(log_weight - highest)
    weight = np.minimum(weight, weight.mean() * math.sqrt(_CANDIDATES))  # so that no single candidate dominates
    evidence = mode.evidence + float(highest + np.log(weight.mean()))
    return replace(mode, evidence=evidence), candidates, weight / weight.sum()


def _drawn(modes: Sequence[Mode], rows: Rows) -> Posterior:
    """Draws from all modes in proportion to their evidence; the seed is fixed, so that answers are reproducible."""
    from scipy.special import ndtri, stdtrit  # quantiles, without all of scipy.stats

    generator = np.random.default_rng(_SEED)
    best = max(mode.evidence for mode in modes)
    weighed = [_weighed(mode, rows, generator) for mode in modes if mode.evidence > best - _NEGLIGIBLE]
    evidence = np.array([mode.evidence for mode, _, _ in weighed])
    probability = np.exp(evidence - evidence.max())
    probability /= probability.sum()
    # Systematic sampling: every mode gets its share of the draws, rounded one way or the other.
    counts = np.diff(np.floor(np.concatenate([[0.0], np.cumsum(probability)]) * _DRAWS + 0.5)).astype(int)
    parts, shares = [], {mode.law.name: 0.0 for mode in modes}
    for (mode, candidates, weight), count, share in zip(weighed, counts, probability, strict=True):
        shares[mode.law.name] += float(share)
        if count:
            chosen = np.searchsorted(np.cumsum(weight), (np.arange(count) + 0.5) / count)
            parts.append(LawDraws(mode.law, candidates[np.minimum(chosen, _CANDIDATES - 1)], mode.noise))
    even = (np.arange(_DRAWS) + 0.5) / _DRAWS
    strays, places = (generator.permutation(quantiles) for quantiles in (stdtrit(_FREEDOM, even), ndtri(even)))
    return Posterior(tuple(parts), shares, strays, places, rows.scatter, float(rows.weight.sum()))

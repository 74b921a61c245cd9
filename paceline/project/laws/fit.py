"""Laws fitted to a table: the most likely parameters, how sure they are, and how well each law explains the rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from paceline.project.laws.base import COMPUTE_LIMITS, Array, Law, Scope, Settings
from paceline.project.laws.catalogue import family

# Residuals are differences of logarithms, Student-t so that a bad row does not decide.
_FREEDOM = 4.0
_LOG_DENSITY = math.lgamma((_FREEDOM + 1) / 2) - math.lgamma(_FREEDOM / 2) - 0.5 * math.log(_FREEDOM * math.pi)
NOISE = np.geomspace(0.2, 0.005, 7)
"""How far rows may lie from a law, as shares; from what is vague to what is exact."""

_NOISE_MEDIAN, _NOISE_SPREAD = 0.012, 0.8
# Rows of the same workers and nodes share what a law gets wrong there: m of them count as m^(1 − this).
_ALIKE = 0.75
# And all rows together count as this many at most: a law's misfit does not average out.
_MOST_WEIGHT = 35.0
# From so many repeats on, how they scatter counts; a normal standard deviation is this much of the median distance.
_REPEATS, _DEVIATION = 3, 1.4826
# What a step takes without its sync_seconds bounds its compute; clocks and what they leave out blur it by this share.
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
    """Measured step times and what each counts."""

    at: Settings
    log_seconds: Array
    weight: Array
    scatter: float
    """How far repeats of a setting lie from their median, as a share; 0 where there are none."""

    log_rest: Array | None = None
    """Of the step without what it spent synchronising, which compute does not exceed; infinite where not known."""


@dataclass(frozen=True, eq=False)
class Mode:
    """A law with its most likely parameters at one noise, and their covariance."""

    law: Law
    noise: float
    centre: Array
    covariance: Array
    evidence: float
    """Logarithm of the probability of the rows under this law, up to what all share."""


@dataclass(frozen=True, eq=False)
class LawDraws:
    """Draws of one law's parameters."""

    law: Law
    draws: Array
    noise: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws over all laws, as many of each as it deserves."""

    parts: tuple[LawDraws, ...]
    shares: dict[str, float]
    """How likely each law is, by name."""

    strays: Array
    """How far a further row lies from its law, by draw, in units of the noise; the same at every point."""

    scatter: float
    """How far repeats lie from their median, which the laws are fitted to."""

    weight: float
    """How many rows it stands on, as they count."""

    @cached_property
    def noise(self) -> Array:
        """How far rows lie from a law, as a share, by draw."""
        of_laws = np.concatenate([np.full(len(part.draws), part.noise) for part in self.parts])
        return np.asarray(np.hypot(of_laws, self.scatter))

    @property
    def typical_noise(self) -> float:
        """The median noise over the draws."""
        return float(np.median(self.noise))

    def composition(self, at: Settings) -> dict[str, Array]:
        """The typical share of each part in a step, before anything is hidden, by setting."""
        together: dict[str, list[Array]] = {}
        for part in self.parts:
            step_parts = part.law.parts(part.draws[:: max(1, len(part.draws) // _FEW)], at)
            whole = sum(step_parts.values())
            for name, seconds in step_parts.items():
                together.setdefault(name, []).append(len(part.draws) * (seconds / whole).mean(axis=0))
        return {name: np.sum(shares, axis=0) / len(self.noise) for name, shares in together.items()}

    @cached_property
    def limits(self) -> dict[str, str]:
        """The parts of a step in all laws, and what limits a step that consists mostly of one."""
        return {**COMPUTE_LIMITS, **{name: limit for part in self.parts for name, limit in part.law.limits.items()}}

    def log_seconds(self, at: Settings) -> Array:
        """A row per draw, a column per setting."""
        return np.concatenate([part.law.log_seconds(part.draws, at) for part in self.parts])


def condensed(at: Settings, seconds: Array, rest: Array | None = None) -> Rows:
    """Repeats of a setting become one row, their median; rows of the same workers and nodes count less each."""
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


def fit(at: Settings, seconds: Array, rest: Array | None = None) -> Posterior:
    """What the rows say about every law of the family, together; `rest` is the step without its sync_seconds."""
    rows = condensed(at, seconds, rest)
    smallest = rows.at.workers == rows.at.workers.min()
    typical = None if rows.at.batch is None else float(np.exp(np.mean(np.log(rows.at.batch))))
    unit = float(np.exp(np.median(rows.log_seconds[smallest])))
    laws = family(Scope(unit, typical, rows.at.workers, at.nodes is not None))
    return _drawn([mode for law in laws for mode in _modes(law, replace(rows, at=law.placed(rows.at)))], rows)


def _modes(law: Law, rows: Rows) -> list[Mode]:
    """The law's mode for every noise that is not plainly worse than another.

    There may be two: rows that stray from cheap exchange, and exchange that is dear. Both are looked for.
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
    """What is squared for Student's t."""
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
    """Candidates around a mode, how much each counts, and the mode with the evidence they correct.

    The posterior is not normal where two parameters make up for one another; importance weights put that right.
    """
    size = len(mode.centre)
    away = generator.standard_normal((_CANDIDATES, size))
    candidates = mode.centre + _WIDER * away @ np.linalg.cholesky(mode.covariance).T
    at_mode = _misfit(mode.law, rows, mode.noise, mode.centre[None, :])
    here = _misfit(mode.law, rows, mode.noise, candidates)
    log_weight = 0.5 * ((at_mode**2).sum() - (here**2).sum(axis=1) + (away**2).sum(axis=1)) + size * math.log(_WIDER)
    highest = log_weight.max()
    weight = np.exp(log_weight - highest)
    weight = np.minimum(weight, weight.mean() * math.sqrt(_CANDIDATES))  # truncated, so that one candidate decides less
    evidence = mode.evidence + float(highest + np.log(weight.mean()))
    return replace(mode, evidence=evidence), candidates, weight / weight.sum()


def _drawn(modes: Sequence[Mode], rows: Rows) -> Posterior:
    """Draws from all modes in proportion to their evidence; the seed is fixed, so that answers repeat."""
    from scipy.special import stdtrit  # Student's quantiles, without all of scipy.stats

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
    strays = generator.permutation(stdtrit(_FREEDOM, (np.arange(_DRAWS) + 0.5) / _DRAWS))
    return Posterior(tuple(parts), shares, strays, rows.scatter, float(rows.weight.sum()))

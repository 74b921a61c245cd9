"""A table of workers and throughput, prepared for a fit: step times, units per step, and warnings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from paceline.errors import DataError, SpecError
from paceline.project.laws.base import Array, Settings
from paceline.references.base import Reference, Row, Series

_NOT_SAMPLES = ("word", "token")
_IMPOSSIBLE = 1.05
_REPEATS_APART = 0.25
_FALLS = 0.8
# Where sync_seconds fill the whole step, this share is assumed to remain. Where they typically leave less than this
# share of the compute of fewer workers, they also include overlapped communication.
_LEAST_LEFT, _LEFT_OF_COMPUTE = 0.01, 0.8


@dataclass(frozen=True, eq=False)
class ScalingTable:
    """Rows of one series, sorted by workers."""

    name: str
    at: Settings
    seconds: Array
    """Step time; where it is unknown, workers ÷ throughput, which is proportional to it."""

    is_step_time: bool
    yields: float | None
    """Units per worker and step, per sample of the batch if known; None where throughput is unknown."""

    unit: str | None
    warnings: tuple[str, ...]
    sync_seconds: Array | None = None
    """Synchronisation time per step, NaN in rows without it; None where it is unknown or not plausible."""

    @property
    def rest_seconds(self) -> Array | None:
        """Step time without synchronisation, an upper bound on compute; infinite where unknown."""
        if self.sync_seconds is None:
            return None
        rest = np.maximum(self.seconds - self.sync_seconds, _LEAST_LEFT * self.seconds)
        return np.where(np.isnan(rest), np.inf, rest)

    @property
    def counts(self) -> Array:
        """The distinct worker counts, in order."""
        return np.unique(self.at.workers)

    def throughput(self, at: Settings, seconds: Array) -> Array | None:
        """Units per second over all workers."""
        if self.yields is None:
            return None
        return np.asarray(at.workers * (1.0 if at.batch is None else at.batch) * self.yields / seconds)

    def where(self, chosen: "np.typing.NDArray[np.bool_]") -> "ScalingTable":
        """Only the selected rows."""
        return ScalingTable(
            self.name,
            self.at.where(chosen),
            self.seconds[chosen],
            self.is_step_time,
            self.yields,
            self.unit,
            self.warnings,
            None if self.sync_seconds is None else self.sync_seconds[chosen],
        )


def one_series(reference: Reference, label: str | None) -> Series:
    """The selected series; if there are several, `label` must name one."""
    if label is None and len(reference.series) == 1:
        return reference.series[0]
    labels = [series.label for series in reference.series]
    if label not in labels:
        what = f"--series {label!r} is not in it" if label is not None else f"it holds {len(labels)} series"
        raise SpecError(f"{reference.title}: {what}; choose with --series one of: {', '.join(labels)}.")
    return reference.series[labels.index(label)]


def from_series(name: str, series: Series) -> ScalingTable:
    """Step times of a series' rows; refuses rows whose step time is unknown or not comparable."""
    rows = [row for row in series.rows if row.workers is not None and _has_speed(series, row)]
    left_out = len(series.rows) - len(rows)
    warnings = [f"{left_out} rows without a throughput or step time were left out."] if left_out else []
    if not rows:
        raise DataError(f"{name}: no row has both workers and a throughput: give `throughput` or `step_seconds`.")
    rows.sort(key=lambda row: row.workers or 0)
    if len({row.workers for row in rows}) < 2:
        raise DataError(
            f"{name}: all rows have {rows[0].workers} workers; a projection needs at least two counts: "
            "measure another count, preferably twice as many."
        )
    for row in rows:
        if row.workers and row.nodes and row.nodes > row.workers:
            raise DataError(
                f"{name}: {row.nodes} nodes for {row.workers} workers is not valid: every node needs a worker."
            )
    batch = _batch(name, rows)
    at = settings_of(np.array([row.workers for row in rows], float), _nodes(rows, warnings), batch)
    seconds, is_step_time, yields = _seconds(name, series, rows, at)
    _warn(at, seconds, warnings)
    sync = _sync(name, rows, at, seconds, warnings, is_step_time=is_step_time)
    unit = series.unit or ("samples/s" if yields is not None and at.batch is not None else None)
    return ScalingTable(name, at, seconds, is_step_time, yields, unit, tuple(warnings), sync)


def settings_of(workers: Array, nodes: Array | None, batch: Array | None) -> Settings:
    """Settings of a table; a node fits as many workers as the table's fullest node has."""
    return Settings(workers, nodes, batch, None if nodes is None else float(np.ceil(workers / nodes).max()))


def _has_speed(series: Series, row: Row) -> bool:
    return row.step_seconds is not None or series.rate(row) is not None


def _batch(name: str, rows: Sequence[Row]) -> Array | None:
    """Samples per worker; a global batch is divided among the workers."""
    batches = [row.whole_batch / row.workers if row.whole_batch and row.workers else row.batch for row in rows]
    given = [batch for batch in batches if batch is not None]
    if not given:
        return None
    if len(given) < len(rows):
        if len(set(given)) > 1:
            raise DataError(f"{name}: some rows have a batch and others do not: give it in every row, or in none.")
        batches = [given[0]] * len(rows)
    return np.array(batches, float)


def _nodes(rows: Sequence[Row], warnings: list[str]) -> Array | None:
    """Nodes of every row, where one worker is on one node; None if a row does not give them."""
    nodes = [1 if row.workers == 1 else row.nodes for row in rows]
    if not any(row.nodes for row in rows):
        return None
    if None in nodes:
        warnings.append("Some rows have no nodes, so the column `nodes` was ignored.")
        return None
    return np.array(nodes, float)


def _seconds(name: str, series: Series, rows: Sequence[Row], at: Settings) -> tuple[Array, bool, float | None]:
    """Step times, whether they are true step times, and the units per step."""
    times = [row.step_seconds for row in rows]
    rates = [series.rate(row) for row in rows]
    samples = at.workers * (1.0 if at.batch is None else at.batch)
    both = [r * t / s for r, t, s in zip(rates, times, samples, strict=True) if r is not None and t is not None]
    yields = float(np.median(both)) if both else None
    counts_samples = at.batch is not None and not (series.unit or "").startswith(_NOT_SAMPLES)
    if yields is None and None not in rates:
        yields = series.units_per_sample if series.units_per_sample and at.batch is not None else 1.0
        is_step_time = at.batch is not None and (series.units_per_sample is not None or counts_samples)
        return samples * yields / np.array(rates, float), is_step_time, yields
    if None in times and yields is None:
        raise DataError(f"{name}: some rows have only a throughput, others only a step time: give one in every row.")
    of_speeds = [s * (yields or 1.0) / (r or 1.0) for s, r in zip(samples, rates, strict=True)]
    seconds = [other if time is None else time for time, other in zip(times, of_speeds, strict=True)]
    if yields is None and at.batch is not None:
        yields = 1.0
    return np.array(seconds, float), True, yields


def _sync(
    name: str, rows: Sequence[Row], at: Settings, seconds: Array, warnings: list[str], *, is_step_time: bool
) -> Array | None:
    """Synchronisation time per step, where it is a plausible part of the step."""
    sync = np.array([np.nan if row.sync_seconds is None else row.sync_seconds for row in rows])
    if np.isnan(sync).all():
        return None
    if not is_step_time:
        warnings.append("sync_seconds were ignored: the step time is unknown. Give step_seconds or batch.")
        return None
    for row, part, whole in zip(rows, sync, seconds, strict=True):
        if part > whole:
            where = name if row.line is None else f"{name}, line {row.line}"
            raise DataError(
                f"{where}: sync_seconds {part:g} is more than the step's {whole:g} s: it must be a part of the step; "
                "check its unit."
            )
    sync[at.workers == 1] = 0.0  # one worker waits for no other
    if _leaves_too_little(at, seconds, sync):
        warnings.append(
            "sync_seconds were ignored: without them, steps would be shorter than with fewer workers, so they "
            "must include communication overlapped with compute."
        )
        return None
    return sync


def _leaves_too_little(at: Settings, seconds: Array, sync: Array) -> bool:
    """Whether steps without synchronisation are shorter than those of the fewest workers at the same batch."""
    known = ~np.isnan(sync)
    rest, fewest = (seconds - sync)[known], (at.workers == at.workers.min())[known]
    batch = np.zeros_like(rest) if at.batch is None else at.batch[known]
    typical = {size: float(np.median(rest[fewest & (batch == size)])) for size in np.unique(batch[fewest])}
    left = [rest[i] / typical[batch[i]] for i in np.flatnonzero(~fewest) if batch[i] in typical]
    return bool(left) and float(np.median(left)) < _LEFT_OF_COMPUTE


def _warn(at: Settings, seconds: Array, warnings: list[str]) -> None:
    keys = np.stack([at.workers, *(c for c in (at.nodes, at.batch) if c is not None)], axis=1)
    unique, group = np.unique(keys, axis=0, return_inverse=True)
    for index in range(len(unique)):
        same = seconds[group.reshape(-1) == index]
        if same.max() / same.min() - 1 > _REPEATS_APART:
            warnings.append(
                f"Rows of {unique[index][0]:.0f} workers with the same settings differ by "
                f"{same.max() / same.min() - 1:.0%}: their median was used."
            )
    if at.batch is None or len(np.unique(at.batch)) == 1:
        _warn_of_falls(at.workers, seconds, warnings)
        fastest = float(np.median(seconds[at.workers == at.workers.min()])) / seconds
        if fastest.max() > _IMPOSSIBLE:
            warnings.append(
                f"Throughput per worker rises by {fastest.max() - 1:.0%} with more workers, which is not plausible: "
                "check the smallest row. The projection never scales better than linearly."
            )


def _warn_of_falls(workers: Array, seconds: Array, warnings: list[str]) -> None:
    """Warn where the total throughput falls from one worker count to a larger one."""
    counts = np.unique(workers)
    speed = [count / float(np.median(seconds[workers == count])) for count in counts]
    for (fewer, more), (before, after) in zip(pairwise(counts), pairwise(speed), strict=True):
        if after < _FALLS * before:
            warnings.append(
                f"{more:.0f} workers together are {1 - after / before:.0%} slower than {fewer:.0f}: check that row. "
                "The projection uses it unchanged."
            )

"""Rates of workers that do not wait for one another: measured over the same time, not the same steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.measure.series import Series, WorkerSeries


@dataclass(frozen=True)
class Stretch:
    """The time in which all workers were training, without their common pauses."""

    begin: float
    end: float
    pause_begins: Series
    pause_ends: Series

    @property
    def seconds(self) -> float:
        """Length without pauses."""
        return float(self.worked(np.array([self.begin, self.end])) @ [-1, 1])

    def worked(self, times: Series) -> Series:
        """Seconds outside pauses up to each of `times`; only differences are meaningful."""
        paused = np.clip(times[:, None], self.pause_begins, self.pause_ends) - self.pause_begins
        return np.asarray(times - paused.sum(axis=1))

    def steps(self, worker: WorkerSeries) -> slice:
        """The steps of a worker within this time; at least one."""
        first = int(np.searchsorted(worker.begin, self.begin, side="left"))
        last = int(np.searchsorted(worker.end, self.end, side="right"))
        first = min(first, len(worker.end) - 1)
        return slice(first, max(last, first + 1))

    def rates(self, workers: Sequence[WorkerSeries], windows: int) -> Series:
        """Units per second over all workers, in windows of equal length."""
        grid = np.linspace(self.begin, self.end, 64 * windows + 1)
        edges = np.interp(np.linspace(0, self.seconds, windows + 1), self.worked(grid) - self.worked(grid[:1]), grid)
        made = sum(_units_until(worker, edges) for worker in workers)
        return np.diff(made) / np.diff(self.worked(edges))


def common_stretch(workers: Sequence[WorkerSeries], skip: int) -> Stretch:
    """The time from when every worker has done its first `skip` steps until the first one finishes.

    Where the fastest worker finishes before the slowest one starts, it is the whole run.
    """
    begin, end = max(w.begin[skip] for w in workers), min(w.end[-1] for w in workers)
    if end <= begin:
        begin, end = min(w.begin[0] for w in workers), max(w.end[-1] for w in workers)
    gaps = [_gaps(worker) for worker in workers]
    count = min(len(starts) for starts, _ in gaps)  # workers pause together, so in the same order
    starts = np.max([g[0][:count] for g in gaps], axis=0)
    ends = np.min([g[1][:count] for g in gaps], axis=0)
    common = starts < ends
    return Stretch(float(begin), float(end), starts[common], ends[common])


def _gaps(worker: WorkerSeries) -> tuple[Series, Series]:
    ends, begins = worker.end[:-1], worker.begin[1:]
    paused = begins > ends
    return ends[paused], begins[paused]


def _units_until(worker: WorkerSeries, times: Series) -> Series:
    """Units processed until each of `times`; a step processes its units at a constant rate."""
    moments = np.stack([worker.begin, worker.end], axis=1).ravel()
    done = np.cumsum(worker.units)
    return np.interp(times, moments, np.stack([done - worker.units, done], axis=1).ravel())

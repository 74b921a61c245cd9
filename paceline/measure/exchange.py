"""Buckets and gradients of a step: when they were ready, and how much of their exchange was hidden."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from paceline.measure.series import Series, WorkerSeries
from paceline.record import BucketTimes, GradientTime

_MOMENTS = ("ready", "start", "end")


class NamedSize(Protocol):
    """A trained tensor: its name and the size of its gradient."""

    @property
    def name(self) -> str:
        """As the model names it."""

    @property
    def bytes(self) -> int:
        """Of its gradient."""


def buckets_of(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> tuple[BucketTimes, ...]:
    """Each bucket's bytes and moments: medians over watched timed steps and workers, seconds since backward began."""
    rows = [_watched(worker, part) for worker, part in zip(workers, timed, strict=True)]
    all_rows = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    times = []
    for bucket in np.unique(all_rows["index"]):
        here = all_rows["index"] == bucket
        since = all_rows["backward_begin"][here]
        ready, start, end = (float(np.median(all_rows[name][here] - since)) for name in _MOMENTS)
        payload_bytes = int(all_rows["bytes"][here][0])
        times.append(
            BucketTimes(
                bucket=int(bucket), bytes=payload_bytes, ready_seconds=ready, start_seconds=start, end_seconds=end
            )
        )
    return tuple(times)


def hidden_seconds(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> float | None:
    """Mean seconds per step in which an exchange was under way before this worker's last gradient was ready.

    Over watched timed steps and workers: the length of the union of the buckets' start…end, up to the arrival.
    """
    hidden: list[float] = []
    for worker, part in zip(workers, timed, strict=True):
        rows = _watched(worker, part)
        ends = np.minimum(rows["end"], worker.arrival[rows["step"].astype(int)])
        borders = np.flatnonzero(np.diff(rows["step"])) + 1  # rows come in order of steps
        if len(ends):
            hidden += map(_union, np.split(rows["start"], borders), np.split(ends, borders))
    return float(np.mean(hidden)) if hidden else None


def gradients_of(
    workers: Sequence[WorkerSeries], timed: Sequence[slice], tensors: Sequence[NamedSize]
) -> tuple[GradientTime, ...]:
    """Each tensor's name, bytes and when it was ready: the median over sampled timed steps and workers."""
    rows = []
    for worker, part in zip(workers, timed, strict=True):
        steps = worker.gradient_step
        rows.append(worker.gradient_ready[(steps >= part.start) & (steps < part.stop)])
    sampled = np.concatenate(rows)
    if not len(sampled):
        return ()
    ready = np.median(sampled, axis=0)
    return tuple(
        GradientTime(name=tensor.name, bytes=tensor.bytes, ready_seconds=float(when))
        for tensor, when in zip(tensors, ready, strict=True)
    )


def _watched(worker: WorkerSeries, part: slice) -> dict[str, Series]:
    """A worker's bucket rows of timed steps, each with the beginning of its step's backward."""
    steps = worker.bucket_step
    kept = (steps >= part.start) & (steps < part.stop)
    rows = {name: worker[f"bucket_{name}"][kept] for name in ("step", "index", "bytes", *_MOMENTS)}
    return {**rows, "backward_begin": worker.backward_begin[rows["step"].astype(int)]}


def _union(starts: Series, ends: Series) -> float:
    """How long at least one of the intervals lasts; those that end before they start are none."""
    length, reached = 0.0, -np.inf
    for start, end in sorted(zip(starts, ends, strict=True)):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return float(length)

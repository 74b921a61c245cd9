"""Buckets and gradients of a step: when they were ready, and how much of their exchange overlapped with backward."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from paceline.measure.series import Series, WorkerSeries
from paceline.record_parts import BucketTimes, GradientTime


class NamedSize(Protocol):
    """A trained tensor: its name and the size of its gradient."""

    @property
    def name(self) -> str:
        """The name in the model."""

    @property
    def bytes(self) -> int:
        """The size of its gradient in bytes."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape; None where it is unknown."""


def buckets_of(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> tuple[BucketTimes, ...]:
    """Each bucket's bytes and times since backward began: medians over recorded timed steps and all workers."""
    rows = _BucketRows.joined([_bucket_rows(worker, part) for worker, part in zip(workers, timed, strict=True)])
    times = []
    for bucket in np.unique(rows.index):
        chosen = rows.index == bucket
        since = rows.backward_begin[chosen]
        times.append(
            BucketTimes(
                bucket=int(bucket),
                bytes=int(rows.bytes[chosen][0]),
                ready_seconds=float(np.median(rows.ready[chosen] - since)),
                start_seconds=float(np.median(rows.start[chosen] - since)),
                end_seconds=float(np.median(rows.end[chosen] - since)),
            )
        )
    return tuple(times)


def hidden_seconds(workers: Sequence[WorkerSeries], timed: Sequence[slice]) -> float | None:
    """Mean seconds of communication per step before the worker's last gradient was ready, that is overlapped.

    Over recorded timed steps and all workers: the length of the union of the buckets' start…end, up to the arrival.
    """
    hidden: list[float] = []
    for worker, part in zip(workers, timed, strict=True):
        rows = _bucket_rows(worker, part)
        ends = np.minimum(rows.end, worker.arrival[rows.step.astype(int)])
        borders = np.flatnonzero(np.diff(rows.step)) + 1  # rows come in order of steps
        if len(ends):
            hidden += map(_union, np.split(rows.start, borders), np.split(ends, borders))
    return float(np.mean(hidden)) if hidden else None


def gradients_of(
    workers: Sequence[WorkerSeries], timed: Sequence[slice], tensors: Sequence[NamedSize]
) -> tuple[GradientTime, ...]:
    """Each tensor's name, bytes and when it was ready: the median over sampled timed steps and workers."""
    rows = []
    for worker, part in zip(workers, timed, strict=True):
        steps = worker.gradient_step
        rows.append(worker.gradient_ready[(steps >= part.start) & (steps < part.stop)])
    sampled = [row for row in rows if len(row)]
    if not sampled:
        return ()
    ready = np.median(np.concatenate(sampled), axis=0)
    return tuple(
        GradientTime(name=tensor.name, bytes=tensor.bytes, shape=tensor.shape, ready_seconds=float(when))
        for tensor, when in zip(tensors, ready, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _BucketRows:
    """Bucket rows of timed steps, each with the beginning of its step's backward."""

    step: Series
    index: Series
    bytes: Series
    ready: Series
    start: Series
    end: Series
    backward_begin: Series

    @classmethod
    def joined(cls, parts: Sequence["_BucketRows"]) -> "_BucketRows":
        """The rows of several workers, one after the other."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in dataclasses.fields(cls)))


def _bucket_rows(worker: WorkerSeries, part: slice) -> _BucketRows:
    kept = (worker.bucket_step >= part.start) & (worker.bucket_step < part.stop)
    steps = worker.bucket_step[kept]
    return _BucketRows(
        step=steps,
        index=worker.bucket_index[kept],
        bytes=worker.bucket_bytes[kept],
        ready=worker.bucket_ready[kept],
        start=worker.bucket_start[kept],
        end=worker.bucket_end[kept],
        backward_begin=worker.backward_begin[steps.astype(int)],
    )


def _union(starts: Series, ends: Series) -> float:
    """Length of the union of the intervals; those that end before they start do not count."""
    length, reached = 0.0, -np.inf
    for start, end in sorted(zip(starts, ends, strict=True)):
        length += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return float(length)

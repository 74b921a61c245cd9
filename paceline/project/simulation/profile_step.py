"""The profile of a step, from records: its work without exchange, when gradients are ready, and its spread."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from paceline import grammar
from paceline.errors import DataError
from paceline.measure.extremes import Z95, expected_maximum
from paceline.measure.stats import Figure
from paceline.project.simulation.grouping import Gradient
from paceline.record import Record
from paceline.record_parts import GradientTime, Throughput
from paceline.settings import Role
from paceline.spec import SETTINGS, with_role
from paceline.traffic.catalogue import exchanges

FEED_BOUND_SHARE = 0.1
"""The share of a step spent waiting for a prefetched batch from which on the feed sets the pace."""

QUEUED_SHARE = 0.1
"""The share of a step that a worker may queue for its core; beyond it, other processes disturbed the run."""

_UNKNOWN_ERROR = math.log(2) / Z95
"""Relative standard error assumed for a rate whose 95 % interval is unknown or spans more than 2x either way."""


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """One worker's step at one batch. Seconds are its own work, without exchange or waiting."""

    batch: float
    rate_per_sample: float
    """Units per sample; above 1 where a sample holds several units."""

    unit: str
    input_seconds: float
    forward_seconds: float
    backward_seconds: float
    update_seconds: float
    other_seconds: float
    gradients: tuple[Gradient, ...]
    """Gradients in order of registration."""

    spread_seconds: float
    """Standard deviation of a worker's arrival time at the exchange."""

    feed_seconds: float | None = None
    """Seconds between two batches of the feed, where the feed sets the pace of a step."""

    fixed_share: float | None = None
    """The share of forward and backward that does not grow with the batch; None if unknown."""

    error: float
    """Relative standard error of the measured rate."""

    measured_workers: int = 1
    devices_per_node: int | None = None
    """Devices per node of the measured machine; None if unknown."""

    warnings: tuple[str, ...] = field(default=())

    @property
    def own_seconds(self) -> float:
        """The time of a step without exchange and without waiting for batches."""
        return (
            self.input_seconds + self.forward_seconds + self.backward_seconds + self.update_seconds + self.other_seconds
        )

    def at_batch(self, batch: float) -> "StepProfile":
        """The profile at another batch: forward and backward as a + b · batch, input as b · batch."""
        if batch == self.batch:
            return self
        growth = batch / self.batch
        fixed = self.fixed_share or 0.0
        notes = () if self.fixed_share is not None else (_proportional(self.batch, batch),)
        scaled = self._computing(fixed + (1 - fixed) * growth)
        return replace(
            scaled,
            batch=batch,
            input_seconds=self.input_seconds * growth,
            feed_seconds=None if self.feed_seconds is None else self.feed_seconds * growth,
            warnings=(*self.warnings, *notes),
        )

    def on_faster_device(self, factor: float) -> "StepProfile":
        """The profile on a device that computes and updates `factor` times as fast."""
        return replace(
            self._computing(1 / factor),
            update_seconds=self.update_seconds / factor,
            other_seconds=self.other_seconds / factor,
        )

    def with_feed(self, factor: float) -> "StepProfile":
        """The profile with a feed that is `factor` times as fast."""
        return replace(
            self,
            input_seconds=self.input_seconds / factor,
            feed_seconds=None if self.feed_seconds is None else self.feed_seconds / factor,
        )

    def _computing(self, factor: float) -> "StepProfile":
        return replace(
            self,
            forward_seconds=self.forward_seconds * factor,
            backward_seconds=self.backward_seconds * factor,
            gradients=tuple(replace(g, ready_seconds=g.ready_seconds * factor) for g in self.gradients),
            spread_seconds=self.spread_seconds * factor,
        )


def _proportional(measured: float, asked: float) -> str:
    return (
        f"Measured at batch {measured:g} only, so compute at batch {asked:g} is assumed to be proportional: "
        "add records at a second batch to measure it."
    )


def profile_of(records: Sequence[Record]) -> StepProfile:
    """The profile from runs of one workload: the run with the most workers, and one worker alone if it was run.

    Runs at other batches show how compute grows with the batch.
    """
    _require_alike(records)
    anchor = anchor_of(records)
    alone = alone_of(records, anchor)
    backward = own_backward(anchor, alone)
    phases, step = anchor.phases, anchor.step_seconds
    feed = _feed_seconds(anchor)
    workers = anchor.spec.workers
    sampled = anchor if anchor.gradients else alone
    if sampled is None or not sampled.gradients:
        raise DataError(
            f"The record of {anchor.spec.strategy} with {workers} worker(s) has no gradient times: "
            f"too few steps ({anchor.steps_timed}) were timed. Run it for longer."
        )
    spread, notes = _spread(anchor)
    notes = (*notes, *_uncertain(anchor), *_disturbed(anchor))
    return StepProfile(
        batch=anchor.batch,
        rate_per_sample=anchor.throughput.value * step / (workers * anchor.batch),
        unit=anchor.throughput.unit,
        input_seconds=0.0 if feed else phases.input,
        forward_seconds=phases.forward,
        backward_seconds=backward,
        update_seconds=phases.update,
        other_seconds=phases.other,
        gradients=_gradients(sampled.gradients, backward),
        spread_seconds=spread,
        feed_seconds=feed,
        fixed_share=_fixed_share(records, anchor),
        error=interval_error(anchor.throughput),
        measured_workers=workers,
        devices_per_node=_devices_per_node(anchor),
        warnings=notes,
    )


def anchor_of(records: Sequence[Record]) -> Record:
    """The run with the most workers; among several, the last one that exchanged."""
    return max(enumerate(records), key=lambda r: (r[1].spec.workers, exchanges(r[1].spec.strategy), r[0]))[1]


def alone_of(records: Sequence[Record], anchor: Record) -> Record | None:
    """The run of one worker alone at the same batch, if there is one."""
    same = [r for r in records if r.spec.workers == 1 and not exchanges(r.spec.strategy)]
    return next((r for r in reversed(same) if r.batch == anchor.batch), None)


def own_backward(anchor: Record, alone: Record | None) -> float:
    """Backward without the exchange's work on its core.

    With a run of one worker alone: its backward, slowed down as much as forward is. Without one, the exchange and
    backward are assumed to have had half of the core each while both were running.
    """
    backward = anchor.phases.backward
    if not exchanges(anchor.spec.strategy):
        return backward
    if alone is not None and alone.phases.forward:
        slowdown = max(1.0, anchor.phases.forward / alone.phases.forward)
        return min(backward, slowdown * alone.phases.backward)
    hidden = anchor.overlap.hidden if anchor.overlap else 0.0
    return backward - min(hidden, backward) / 2


def interval_error(rate: Throughput | Figure) -> float:
    """Relative standard error of a rate, from its 95 % interval."""
    low, high = rate.low, rate.high
    return _UNKNOWN_ERROR if not low or not high else min(_UNKNOWN_ERROR, math.log(high / low) / (2 * Z95))


def _gradients(sampled: Sequence[GradientTime], backward: float) -> tuple[Gradient, ...]:
    """When each gradient was ready, on the scale of backward's own work, which ends with the last gradient."""
    scale = backward / max(g.ready_seconds for g in sampled)
    return tuple(Gradient(g.bytes, g.ready_seconds * scale, g.shape) for g in sampled)


def _spread(anchor: Record) -> tuple[float, tuple[str, ...]]:
    """Standard deviation of arrivals, from the mean wait: wait = sd · (expected maximum of n)."""
    workers = anchor.spec.workers
    if workers > 1 and anchor.phases.wait:
        return anchor.phases.wait / expected_maximum(workers), ()
    return 0.0, (
        "These records do not show how much workers differ: the projection omits waiting for the slowest. Add a record "
        "of two workers.",
    )


def _uncertain(anchor: Record) -> tuple[str, ...]:
    if interval_error(anchor.throughput) < _UNKNOWN_ERROR:
        return ()
    return ("The measured rate is uncertain by about 2x, and so is everything projected from it: measure for longer.",)


def _disturbed(anchor: Record) -> tuple[str, ...]:
    """Warn where a worker queued for its core: its times then reflect other processes too."""
    queued = [worker.queued_seconds_per_step for worker in anchor.per_worker]
    share = max(((q or 0.0) / anchor.step_seconds for q in queued), default=0.0)
    if anchor.spec.workers_per_device > 1 or share < QUEUED_SHARE:
        return ()
    return (
        f"During the measurement a worker queued for its core for {100 * share:.0f} % of a step: other processes ran "
        "there. Measure again on a quiet machine.",
    )


def _feed_seconds(anchor: Record) -> float | None:
    """Seconds of the feed per batch, where batches are prefetched and workers still waited for them."""
    options = grammar.parse(anchor.spec.feed, "feed").options
    ahead = any(int(options.get(name, "0")) for name in ("prefetch", "loaders"))
    bound = anchor.phases.input >= FEED_BOUND_SHARE * anchor.step_seconds
    return anchor.step_seconds if ahead and bound else None


def _devices_per_node(anchor: Record) -> int | None:
    if anchor.network is not None:
        nodes = [worker.node for worker in anchor.per_worker]
        return max(nodes.count(node) for node in set(nodes))
    if anchor.environment.device_kind != "cpu":
        return None
    cores = anchor.environment.cores
    return None if cores is None else cores // anchor.spec.cores_per_device


def _fixed_share(records: Sequence[Record], anchor: Record) -> float | None:
    """The share of a in compute a + b · batch at the anchor's batch, from runs that differ only in the batch."""
    as_anchor = [r for r in records if (r.spec.strategy, r.spec.workers) == (anchor.spec.strategy, anchor.spec.workers)]
    alone = [r for r in records if r.spec.workers == 1 and not exchanges(r.spec.strategy)]
    for alike in (as_anchor, alone):
        batches = np.array([r.batch for r in alike], dtype=float)
        if len(set(batches)) > 1:
            seconds = np.array([r.phases.forward + own_backward(r, alone_of(records, r)) for r in alike])
            per_sample, fixed = np.polyfit(batches, seconds, 1)
            there = fixed + per_sample * anchor.batch
            return float(np.clip(fixed / there, 0.0, 1.0))
    return None


def _require_alike(records: Sequence[Record]) -> None:
    if not records:
        raise DataError("There are no records to profile: give at least one.")
    for name in with_role(Role.STEP):
        values = list(dict.fromkeys(str(getattr(r.spec, name)) for r in records))
        if len(values) > 1:
            raise DataError(
                f"The records differ in {SETTINGS[name].label} ({', '.join(values)}): a projection needs runs "
                "of one kind; give those only."
            )

"""Estimate the duration of runs given in steps or epochs: time one worker for a second before the study."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.engines.base import Engine, NoDisplay
from paceline.engines.plan import plan
from paceline.errors import PacelineError
from paceline.feeds.catalogue import DatasetOptions, resolve
from paceline.settings import Baseline, Role
from paceline.spec import RunSpec, settings_alone, with_baseline, with_role

_PROBE_SECONDS = 1.0
_MOST_PROBES = 8
_NEVER_NARROW_PERCENT = 1e-3
"""An interval that is never reached: only a run with `until_percent` may have two upper limits."""


@dataclass(frozen=True)
class Probe:
    """The measured pace of one worker."""

    start_up_seconds: float
    sample_seconds: float
    epochs_samples: float
    """The samples of all requested epochs."""


class _Ear(NoDisplay):
    """A display that records the total number of steps."""

    steps = 0

    def ready(self, *, step: int, total_steps: int | None) -> None:
        """Record the number of steps."""
        self.steps = total_steps or 0


def _kind(spec: RunSpec) -> tuple[object, ...]:
    """A key that is equal for runs whose steps differ only in batch and workers."""
    same = with_baseline(Baseline.SAME)
    step = (getattr(spec, name) for name in with_role(Role.STEP) if name in same)
    return *step, spec.slow_motion, spec.epochs


def probe(specs: Iterable[RunSpec], engine: Engine, say: Callable[[str], None]) -> dict[tuple[object, ...], Probe]:
    """Time one worker of every kind of run for about a second; skip kinds that fail, or all if there are too many."""
    first: dict[tuple[object, ...], RunSpec] = {}
    for spec in specs:
        first.setdefault(_kind(spec), spec)
    if len(first) > _MOST_PROBES:
        return {}
    probes = {}
    for kind, spec in first.items():
        say(f"timing {spec.workload} for a second to estimate its duration")
        try:
            probes[kind] = _one(spec, engine)
        except PacelineError:  # the study itself will report it
            return {}
    return probes


def _one(spec: RunSpec, engine: Engine) -> Probe:
    alone = replace(
        spec.replaced(settings_alone()),
        seconds=_PROBE_SECONDS,
        until_percent=_NEVER_NARROW_PERCENT,
        timing="detected",
        validate="off",
        checkpoint_every=None,
    )
    ear = _Ear()
    with tempfile.TemporaryDirectory() as folder:
        record = engine.run(plan(alone), Path(folder) / "probe", ear)
    done = record.learning.samples_seen
    each = record.wall_seconds.training / done
    return Probe(record.wall_seconds.start_up, each, ear.steps * record.learning.global_batch)


def seconds_of(spec: RunSpec, probes: dict[tuple[object, ...], Probe]) -> float | None:
    """The estimated duration of a run, without communication; workers on one device take turns."""
    known = probes.get(_kind(spec))
    if known is None or spec.batch is None:
        return None
    _, feed = resolve(spec.feed)
    divided = not isinstance(feed, DatasetOptions) or feed.shard
    of_worker = known.epochs_samples / (spec.workers if divided else 1)
    samples = spec.steps * spec.batch if spec.steps is not None else of_worker
    return known.start_up_seconds + samples * known.sample_seconds * spec.workers_per_device

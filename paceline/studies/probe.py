"""The pace of one worker: from a run of a second before the study, or from a finished run of the study itself."""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.engines.base import Engine, NoDisplay
from paceline.engines.plan import plan
from paceline.errors import PacelineError
from paceline.record import Record
from paceline.settings import Baseline, Role
from paceline.spec import RunSpec, with_baseline, with_role
from paceline.studies.grid import settings_alone

_PROBE_SECONDS = 1.0
_MOST_PROBES = 8

Kind = tuple[object, ...]
"""What runs share whose steps differ only in batch and workers."""


@dataclass(frozen=True)
class Probe:
    """The measured pace of one worker that has its device alone."""

    workers: int
    """Workers of the measured run: with more than one, training includes communication."""

    start_up_seconds: float
    sample_seconds: float
    """Seconds of training per sample."""

    forward_seconds: float
    """Seconds of forward per sample, which is what validation takes."""

    gradient_bytes: int

    @classmethod
    def of(cls, record: Record) -> "Probe":
        """The pace that a finished run shows; workers on one device took turns."""
        spec, shared = record.spec, record.spec.workers_per_device
        of_worker = max(record.learning.samples_seen, 1) / spec.workers
        return cls(
            workers=spec.workers,
            start_up_seconds=record.wall_seconds.start_up / shared,
            sample_seconds=record.wall_seconds.training / of_worker / shared,
            forward_seconds=record.phases.forward * spec.slow_motion / record.batch / shared,
            gradient_bytes=record.workload.gradient_bytes,
        )


def kind_of(spec: RunSpec) -> Kind:
    """The kind of a run."""
    same = with_baseline(Baseline.SAME)
    step = (getattr(spec, name) for name in with_role(Role.STEP) if name in same)
    return *step, spec.slow_motion


def probe(specs: Iterable[RunSpec], engine: Engine, say: Callable[[str], None]) -> dict[Kind, Probe]:
    """Time one worker of every kind of run for about a second; skip kinds that fail, or all if there are too many."""
    first: dict[Kind, RunSpec] = {}
    for spec in specs:
        first.setdefault(kind_of(spec), spec)
    if len(first) > _MOST_PROBES:
        return {}
    probes = {}
    for kind, spec in first.items():
        say(f"timing {spec.workload} for a second to estimate its duration")
        try:
            probes[kind] = _one(spec, engine)
        except PacelineError:  # the study itself will report it
            continue
    return probes


def _one(spec: RunSpec, engine: Engine) -> Probe:
    no_length = dict.fromkeys(with_role(Role.LENGTH))
    alone = replace(
        spec.replaced({**settings_alone(), **no_length, "seconds": _PROBE_SECONDS, "timing": "detected"}),
        until_percent=None,
        validate="off",
        checkpoint_every=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        return Probe.of(engine.run(plan(alone), Path(folder) / "probe", NoDisplay()))

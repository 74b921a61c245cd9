"""An engine at the seam that trains nothing: it writes a record at once, so that studies can be tried in no time."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import complete
import numpy as np

from paceline.engines.base import Display, NoDisplay
from paceline.engines.plan import Plan
from paceline.measure import sidecar
from paceline.measure.series import WorkerSeries
from paceline.network import Site
from paceline.record import Record
from paceline.record_parts import PHASES
from paceline.spec import RunSpec
from paceline.studies.definition import Study, make_study
from paceline.studies.grid import Run
from paceline.studies.schedule import Place

STEPS = 4


def study(**settings: Any) -> Study:
    return make_study({"name": "tried", "workload": "vae", "steps": STEPS, **settings})


def record_of(spec: RunSpec, devices: int, rate: float = 100.0) -> Record:
    """As a run of `spec` could have left it: four steps, two epochs."""
    batch = spec.batch or 8
    step = batch / rate
    phases = dict.fromkeys(PHASES, step / len(PHASES))
    worker = {
        "device": "cpu:0",
        "steps": STEPS,
        "seconds": STEPS * step,
        "samples": STEPS * batch,
        "phases": phases,
        "step_seconds": step,
        "peak_memory_bytes": 10**6,
    }
    return made(
        spec={**spec.to_dict(), "batch": batch},
        workload={"gradient_bytes": 1000, "data": {"source": "nothing", "generated": True}},
        environment={},
        devices=devices,
        samples_timed=STEPS * batch * spec.workers,
        steps_timed=STEPS,
        seconds_timed=STEPS * step,
        warmup_steps=0,
        wall_seconds={"start_up": 1.0, "training": 2.0},
        throughput={
            "value": rate * spec.workers,
            "low": 0.99 * rate * spec.workers,
            "high": 1.01 * rate * spec.workers,
            "unit": "images/s",
        },
        per_worker=[{"rank": rank, **worker} for rank in range(spec.workers)],
        servers=[],
        utilisation=[{"device": "cpu:0", "workers_percent": 90.0, "busy_percent": 95.0}],
        phases=phases,
        overlap=None,
        buckets=[],
        gradients=[],
        learning={
            "loss": [4.0, 3.0, 2.0, 1.0],
            "validation": [
                {"epoch": 1.0, "step": 2, "samples": 2 * batch, "loss": 5.0, "metrics": {"accuracy": 0.5}},
                {"epoch": 2.0, "step": 4, "samples": 4 * batch, "loss": 4.5, "metrics": {"accuracy": 0.75}},
            ],
            "val_loss": 4.5,
            "updates": STEPS,
            "samples_seen": STEPS * batch * spec.workers,
            "global_batch": batch * spec.workers,
            "lr": spec.lr or 0.001,
            "lr_rule": spec.lr_rule,
            "reduction": "mean",
        },
        traffic={"sent_bytes_per_worker_and_step": 1000.0},
        strategy_report={},
    )


def made(**content: Any) -> Record:
    """A complete record with this content."""
    return complete.record_of(content)


class QuickEngine:
    """Notes what it ran; `before` may raise what a real run would, and `rate` is of one of its workers."""

    def __init__(
        self,
        before: Callable[[RunSpec], object] = lambda spec: None,
        *,
        series: int = 0,
        site: Site | None = None,
        rate: Callable[[RunSpec], float] = lambda spec: 100.0,
    ) -> None:
        self.site = site or Site()
        self.ran: list[RunSpec] = []
        self._before = before
        self._series = series
        self._rate = rate

    def run(self, plan: Plan, out: Path, display: Display) -> Record:
        self.ran.append(plan.spec)
        self._before(plan.spec)
        record = record_of(plan.spec, plan.placement.devices, self._rate(plan.spec))
        step = record.step_seconds
        ends = np.linspace(0.0, STEPS * step, STEPS + 1)
        noise = np.random.default_rng(0).random(self._series)  # does not compress
        one = WorkerSeries(begin=ends[:-1], end=ends[1:], gradient_ready=noise)
        sidecar.save(out, [one] * plan.spec.workers)
        record.save(out)
        return record


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.said: list[str] = []
        self.failures: list[str] = []

    def begin(self, run: Run, place: Place) -> AbstractContextManager[Display]:
        self.places.append(place)
        return nullcontext(NoDisplay())

    def done(self, run: Run, record: Record) -> None:
        self.said.append(run.key)

    def failed(self, run: Run, message: str) -> None:
        self.failures.append(message)

    def note(self, text: str) -> None:
        self.said.append(text)

"""Runs made from a description: consistent series, and the record that the product's own parts measure in them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from complete import record_of

from paceline.measure import sidecar
from paceline.measure.exchange import buckets_of, hidden_seconds
from paceline.measure.phases import lateness_of, phases_of, thread_seconds
from paceline.measure.series import THREAD_PHASES, WorkerSeries
from paceline.record import Record
from paceline.record_parts import Phases
from paceline.spec import RunSpec
from paceline.traffic import catalogue

USUAL = {
    "input": 0.002,
    "forward": 0.030,
    "backward": 0.060,
    "exchange": 0.004,
    "update": 0.003,
    "other": 0.0005,
}
ALONE = {**USUAL, "exchange": 0.0}
WARMUP = 5


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a run is like, in seconds."""

    workers: int = 2
    steps: int = 60
    phases: Mapping[str, float] = field(default_factory=lambda: USUAL)
    longer: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """By rank: what its phases take more than everybody's."""

    at_times: Sequence[tuple[int | None, str, float, Callable[[int], bool]]] = ()
    """Delays in some steps: whose (None: everybody's), in which phase, how long, and in which steps."""

    agreed: float = 0.0
    """What every worker waits after every step for the agreement when to stop."""

    threads: bool = False
    """Whether the thread's CPU time and its queue were measured in every phase."""

    asleep: Mapping[str, float] = field(default_factory=dict)
    """Of everybody's phases: the time in which they neither compute nor wait for a core; of `longer`, all."""

    waits_for_core: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """By rank: the part of its phases, on top of all others, in which it waits for a core."""

    noise: float = 0.0
    """Standard deviation of everybody's backward."""

    held: float = 0.0
    cpu: float | None = None
    """CPU time of a worker's step; by default all that it does itself."""

    queued: float | None = None
    """Of a worker's computing in a step: ready to run, and no core free; None: the system does not count."""

    outside_percent: float = 0.0
    stolen_percent: float = 0.0
    """Of that: by other machines on the host."""

    buckets: Sequence[int] = ()
    """Bytes of each; they become ready one after the other during backward."""

    latency: float = 0.0
    bandwidth: float = 1e9
    spec: Mapping[str, Any] = field(default_factory=dict)
    devices: int | None = None
    servers: Sequence[Mapping[str, Any]] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 8
    seed: int = 0


def alone(**changes: Any) -> Situation:
    """The one-worker baseline."""
    spec = {"strategy": "independent", **changes.pop("spec", {})}
    return Situation(workers=1, spec=spec, **{"phases": ALONE, **changes})


def write(folder: Path, situation: Situation, *, series: bool = True) -> Path:
    """The run's folder, with its record and, unless told otherwise, its sidecar."""
    folder.mkdir(parents=True)
    workers = _simulate(situation)
    _record(situation, workers).save(folder)
    if series:
        sidecar.save(folder, workers)
    return folder


def _synchronous(situation: Situation) -> bool:
    return catalogue.resolve(_spec(situation)["strategy"]).synchronous


def _spec(situation: Situation) -> dict[str, Any]:
    told = {"workload": "vae", "workers": situation.workers, "batch": situation.samples, "steps": situation.steps}
    return RunSpec(**{**told, "device": "cpu", "validate": "end", **situation.spec}).to_dict()


def _simulate(s: Situation) -> list[WorkerSeries]:
    random = np.random.default_rng(s.seed)
    usual = [{name: s.phases[name] + s.longer.get(r, {}).get(name, 0.0) for name in USUAL} for r in range(s.workers)]
    begins = np.full(s.workers, 1000.0)
    rows: list[list[dict[str, float]]] = [[] for _ in usual]
    buckets: list[list[tuple[float, ...]]] = [[] for _ in usual]
    for step in range(s.steps):
        own = [_longer(s, r, step, phases) for r, phases in enumerate(usual)]
        backward = [max(0.0, p["backward"] + s.noise * random.standard_normal()) for p in own]
        backward_begin = [begins[r] + p["input"] + p["forward"] for r, p in enumerate(own)]
        arrivals = np.array([backward_begin[r] + backward[r] for r in range(s.workers)])
        last = arrivals.max() if _synchronous(s) else arrivals
        done = _exchange_buckets(s, step, backward_begin, backward, buckets)
        finished = np.maximum(last + [p["exchange"] for p in own], done) + s.held
        for r, p in enumerate(own):
            end = finished[r] + p["update"] + p["other"] + s.agreed
            cpu = s.cpu if s.cpu is not None else p["input"] + p["forward"] + backward[r] + p["update"] + p["other"]
            rows[r].append(
                {
                    "begin": begins[r],
                    "end": end,
                    "arrival": arrivals[r],
                    "backward_begin": backward_begin[r],
                    "samples": s.samples,
                    "units": s.samples,
                    "loss": 1.0,
                    "cpu": cpu,
                    "held": s.held,
                    "agreed": s.agreed,
                    **p,
                    "backward": backward[r],
                    "exchange": finished[r] - arrivals[r],
                }
            )
            begins[r] = end
    names = ("step", "index", "bytes", "ready", "start", "end")
    return [
        WorkerSeries.of(
            {
                **{name: np.array([row[name] for row in rows[r]], dtype=float) for name in rows[r][0]},
                **(_threads(s, r, rows[r]) if s.threads else {}),
                **{f"bucket_{n}": np.array([row[i] for row in buckets[r]], dtype=float) for i, n in enumerate(names)},
            }
        )
        for r in range(s.workers)
    ]


def _longer(s: Situation, rank: int, step: int, usual: Mapping[str, float]) -> dict[str, float]:
    """The phases of one step: the usual ones, waiting for a core, and what comes and goes."""
    phases = {name: seconds + s.waits_for_core.get(rank, {}).get(name, 0.0) for name, seconds in usual.items()}
    for who, phase, seconds, hits in s.at_times:
        if who in (None, rank) and hits(step):
            phases[phase] += seconds
    return phases


def _threads(s: Situation, rank: int, rows: Sequence[Mapping[str, float]]) -> dict[str, np.ndarray]:
    """CPU time is what is neither asleep nor in the queue; additional time of single workers and steps is asleep."""
    computes = {name: s.phases[name] - s.asleep.get(name, 0.0) for name in THREAD_PHASES}
    queued = s.waits_for_core.get(rank, {})
    return {
        "thread_cpu": np.array([[computes[name] for name in THREAD_PHASES] for _ in rows]),
        "thread_queued": np.array([[queued.get(name, 0.0) for name in THREAD_PHASES] for _ in rows]),
    }


def _exchange_buckets(
    s: Situation, step: int, begins: Sequence[float], lengths: Sequence[float], rows: list[list[tuple[float, ...]]]
) -> float:
    """One bucket after the other, each once all workers have it; when the last one is over."""
    over = 0.0
    for index, size in enumerate(s.buckets):
        ready = [begin + length * (index + 1) / len(s.buckets) for begin, length in zip(begins, lengths, strict=True)]
        over = max(over, *ready) + s.latency + size / s.bandwidth
        for worker, when in zip(rows, ready, strict=True):
            worker.append((step, index, size, when, when, over))
    return over


def _record(s: Situation, series: list[WorkerSeries]) -> Record:
    spec, part = _spec(s), slice(min(WARMUP, s.steps - 1), s.steps)
    timed = [part] * s.workers
    phases = phases_of(series, timed, synchronous=_synchronous(s))
    lateness = lateness_of(series, timed) if _synchronous(s) and s.workers > 1 else None
    rows: list[dict[str, Any]] = []
    for rank, worker in enumerate(series):
        seconds = (worker.end - worker.begin)[part]
        rows.append(
            {
                "rank": rank,
                "node": 0,
                "device": f"cpu:{rank // spec['workers_per_device']}",
                "cores": [rank],
                "samples": int(worker.samples[part].sum()),
                "steps": part.stop - part.start,
                "seconds": float(seconds.sum()),
                "step_seconds": float(seconds.mean()),
                "phases": phases[rank],
                "last_share": lateness[rank].last_share if lateness else None,
                "late_seconds": lateness[rank].late_seconds if lateness else None,
                "cpu_seconds_per_step": float(worker.cpu[part].mean()),
                "queued_seconds_per_step": s.queued,
                "thread_cpu_seconds": thread_seconds(worker.thread_cpu, part),
                "thread_queued_seconds": thread_seconds(worker.thread_queued, part),
                "peak_memory_bytes": 1,
                "utilisation_percent": float(100 * worker.cpu[part].sum() / seconds.sum()),
                "loader_utilisation_percent": None,
            }
        )
    mean = Phases.mean(phases)
    hidden = hidden_seconds(series, timed)
    exposed = mean.exchange + mean.wait
    used = {row["device"]: row["utilisation_percent"] for row in rows}
    rate = sum(row["samples"] / row["seconds"] for row in rows)
    content: dict[str, Any] = {
        "spec": spec,
        "workload": {
            "name": "vae",
            "gradient_bytes": 13_640_232,
            "unit": "images",
            "parameters": 3_410_058,
            "data": {"source": "generated digits", "generated": True},
        },
        "environment": {
            "host": "here",
            "system": "Linux",
            "processor": "a processor",
            "cores": 2,
            "device_kind": "cpu",
            "threads_per_worker": 1,
            "versions": {"torch": "2.13.0"},
            **s.environment,
        },
        "devices": s.devices or len(used),
        "samples_timed": sum(row["samples"] for row in rows),
        "steps_timed": part.stop - part.start,
        "seconds_timed": max(row["seconds"] for row in rows),
        "warmup_steps": part.start,
        "wall_seconds": {
            "start_up": 3.0,
            "validation": 1.0,
            "checkpoints": 0.0,
            "training": max(float((w.end - w.begin).sum()) for w in series),
        },
        "throughput": {"value": rate, "low": rate * 0.99, "high": rate * 1.01, "unit": "images/s"},
        "per_worker": rows,
        "servers": [dict(server) for server in s.servers],
        "utilisation": [
            {
                "device": device,
                "cores": [0],
                "busy_percent": own + s.outside_percent,
                "workers_percent": own,
                "stolen_percent": s.stolen_percent,
            }
            for device, own in used.items()
        ],
        "phases": mean,
        "overlap": None if hidden is None else {"busy": hidden + exposed, "hidden": hidden, "exposed": exposed},
        "buckets": buckets_of(series, timed),
        "gradients": [],
        "learning": {
            "loss": [1.0],
            "validation": [],
            "val_loss": None,
            "updates": s.steps,
            "lr": 0.1,
            "lr_rule": "none",
            "samples_seen": s.samples * s.workers * s.steps,
            "global_batch": s.samples * s.workers,
        },
        "traffic": {"sent_bytes_per_worker_and_step": sum(s.buckets)},
        "strategy_report": {},
    }
    return record_of({**content, **s.record})

"""Write a run's steps as a Chrome trace for Perfetto: one process per worker, with lanes for phases and buckets."""

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import DataError, OutputError, SpecError
from paceline.files import write_whole
from paceline.measure.runs import StoredRun
from paceline.measure.series import Series, WorkerSeries
from paceline.record import SIDECAR_NAME
from paceline.record_parts import Phases
from paceline.settings import Role
from paceline.spec import RunSpec
from paceline.traffic import catalogue

Event = dict[str, Any]

_PHASES_LANE = 0
_MOST_STEPS = 400
"""Default number of steps per worker: half are the first timed ones, half are spread over the rest."""

_MOST_WORKER_STEPS = 20_000


def parse_steps(text: str) -> range:
    """`"20-29"` → the steps 20 to 29; `"20"` is one step."""
    first, dash, last = text.partition("-")
    try:
        chosen = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise SpecError(f"--steps {text!r} is not a range of steps: write A-B, as in 20-29.") from None
    if not chosen:
        raise SpecError(f"--steps {text} is empty: the first step must not come after the last.")
    return chosen


def write_trace(run: StoredRun, file: Path, steps: range | None = None) -> int:
    """Write the trace of a run and return how many steps it holds; never overwrite an existing file."""
    if run.series is None:
        raise DataError(f"{run.folder} has no readable {SIDECAR_NAME}, which a trace needs: nothing was written.")
    chosen = choose_steps(run, run.series, steps)
    text = json.dumps(trace(run, run.series, chosen), allow_nan=False, separators=(",", ":"))
    try:
        write_whole(file, text, overwrite=False)
    except FileExistsError:
        raise OutputError(f"--trace {file} exists and is not overwritten: choose another file.") from None
    except OSError as error:
        raise OutputError(f"--trace {file} cannot be written ({error.strerror}): choose another file.") from error
    return len(chosen)


def choose_steps(run: StoredRun, workers: Sequence[WorkerSeries], asked: range | None) -> list[int]:
    """The requested steps or, by default, the first timed ones and a sample of the rest."""
    available = min(len(worker.end) for worker in workers)
    most = max(2, min(_MOST_STEPS, _MOST_WORKER_STEPS // len(workers)))
    if asked is not None:
        chosen = [step for step in asked if 0 <= step < available]
        if not chosen:
            raise SpecError(
                f"--steps {asked.start}-{asked.stop - 1}: this run has steps 0 to {available - 1}. Choose among them."
            )
        return chosen
    if available <= most:
        return list(range(available))
    first = min(run.record.warmup_steps, available - most)
    head = list(range(first, first + most // 2))
    # Steps with recorded buckets show more than others.
    later = np.unique(workers[0].bucket_step).astype(int)
    later = later[(later > head[-1]) & (later < available)]
    if len(later) < most // 2:
        later = np.arange(head[-1] + 1, available)
    picked = later[np.linspace(0, len(later) - 1, most - len(head)).astype(int)]
    return head + sorted({int(step) for step in picked})


def trace(run: StoredRun, workers: Sequence[WorkerSeries], steps: Sequence[int]) -> Event:
    """The whole trace as JSON; times in microseconds since the first worker began its first step."""
    origin = min(float(worker.begin[0]) for worker in workers)
    waits = _waits(run, workers)
    events: list[Event] = []
    for rank, worker in enumerate(workers):
        lanes = _bucket_slices(rank, worker, steps, origin)
        events.extend(_names(rank, run.record.per_worker[rank].device, lanes=len(lanes)))
        for step in steps:
            events.extend(_step_slices(rank, worker, step, float(waits[rank][step]), origin))
        events.extend(event for lane in lanes for event in lane)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": _title(run.record.spec),
    }


def _title(spec: RunSpec) -> dict[str, str]:
    """The settings that name the run in the trace."""
    return {name: str(value) for name, value in spec.by_role(Role.TITLE).items()}


def _waits(run: StoredRun, workers: Sequence[WorkerSeries]) -> list[Series]:
    """Per worker and step, the waiting part of `exchange`: A − A_r, or the wait of a staleness bound."""
    if not catalogue.resolve(run.record.spec.strategy).synchronous:
        return [worker.held for worker in workers]
    steps = min(len(worker.end) for worker in workers)
    last = np.max([worker.arrival[:steps] for worker in workers], axis=0)
    return [np.clip(last - w.arrival[:steps], 0, w.exchange[:steps]) for w in workers]


def _names(rank: int, device: str, *, lanes: int) -> Iterator[Event]:
    yield _meta(rank, 0, "process_name", name=f"worker {rank} ({device})")
    yield _meta(rank, 0, "process_sort_index", sort_index=rank)
    labels = ["phases", *(f"buckets {number}" for number in range(1, lanes + 1))]
    for lane, label in enumerate(labels):
        yield _meta(rank, lane, "thread_name", name=label)
        yield _meta(rank, lane, "thread_sort_index", sort_index=lane)


def _meta(rank: int, lane: int, what: str, **args: str | int) -> Event:
    return {"ph": "M", "pid": rank, "tid": lane, "name": what, "args": args}


def _step_slices(rank: int, worker: WorkerSeries, step: int, wait: float, origin: float) -> Iterator[Event]:
    """A step with its phases inside, one after the other; forward and backward add up over micro-batches."""
    begin, end = float(worker.begin[step]) - origin, float(worker.end[step]) - origin
    args = {"step": step, "samples": int(worker.samples[step])}
    yield _slice(rank, _PHASES_LANE, f"step {step}", begin, end, args)
    lengths = Phases(
        input=float(worker.input[step]),
        forward=float(worker.forward[step]),
        backward=float(worker.backward[step]),
        wait=wait,
        exchange=float(worker.exchange[step]) - wait,
        update=float(worker.update[step]),
        other=float(worker.other[step]),
    )
    agreed = float(worker.agreed[step]) if len(worker.agreed) else 0.0
    parts: list[tuple[str, float]] = list(lengths)
    parts.insert(-1, ("wait", agreed))  # after the update, before the next step
    at = begin
    for name, seconds in parts:
        until = min(at + seconds, end)
        if _microseconds(until) > _microseconds(at):
            yield _slice(rank, _PHASES_LANE, name, at, until, {"step": step})
        at = until


def _bucket_slices(rank: int, worker: WorkerSeries, steps: Sequence[int], origin: float) -> list[list[Event]]:
    """A slice from start to end and an instant at ready for each bucket, on as many lanes as overlaps need."""
    kept = np.isin(worker.bucket_step, steps)
    moments = (worker.bucket_ready, worker.bucket_start, worker.bucket_end)
    columns = (worker.bucket_step, worker.bucket_index, worker.bucket_bytes, *moments)
    rows = zip(*(column[kept].tolist() for column in columns), strict=True)
    lanes: list[list[Event]] = []
    free: list[tuple[float, int]] = []  # until when each lane is taken, the earliest first
    for step, index, size, ready, start, end in sorted(rows, key=lambda row: row[4]):
        if free and free[0][0] <= start:
            _, lane = heapq.heappop(free)
        else:
            lanes.append([])
            lane = len(lanes) - 1
        heapq.heappush(free, (end, lane))
        args = {"step": int(step), "bucket": int(index), "bytes": int(size)}
        lanes[lane].append(_slice(rank, lane + 1, f"bucket {int(index)}", start - origin, end - origin, args))
        instant = {"ph": "i", "s": "t", "pid": rank, "tid": lane + 1, "name": f"bucket {int(index)} ready"}
        lanes[lane].append({**instant, "ts": _microseconds(ready - origin), "args": args})
    return lanes


def _slice(rank: int, lane: int, name: str, begin: float, end: float, args: Mapping[str, int]) -> Event:
    # Both edges are rounded and the length follows: neighbours then share an edge exactly.
    start = _microseconds(begin)
    length = round(_microseconds(end) - start, 3)
    return {"ph": "X", "pid": rank, "tid": lane, "name": name, "ts": start, "dur": length, "args": dict(args)}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)

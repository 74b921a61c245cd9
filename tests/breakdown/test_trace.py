"""The trace: valid, nested, nothing overlapping within a lane, and the same sums as the series."""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from explain.situations import USUAL, WARMUP, Situation, write

from paceline.breakdown.trace import parse_steps, write_trace
from paceline.errors import DataError, OutputError, SpecError
from paceline.measure.runs import StoredRun, find

NANOSECOND = 1e-3
"""In microseconds, the unit of a trace: the edges are rounded to it."""

BUCKETS = {"buckets": [4_000_000, 1_000_000, 2_000_000], "latency": 0.001, "bandwidth": 1e8}


def run_of(folder: Path, **changes: Any) -> StoredRun:
    (run,) = find([write(folder / "run", Situation(noise=0.005, **changes))]).runs
    return run


def traced(run: StoredRun, file: Path, steps: range | None = None) -> list[dict[str, Any]]:
    write_trace(run, file, steps)
    content = json.loads(file.read_text())
    assert content["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = content["traceEvents"]
    return events


def slices(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    lanes = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lanes[event["pid"], event["tid"]].append(event)
    return lanes


@pytest.mark.parametrize("strategy", ["allreduce", "ps:mode=stale,bound=2", "independent"])
def test_slices_lie_within_their_step_and_add_up_to_the_series(tmp_path: Path, strategy: str) -> None:
    held = 0.01 if "stale" in strategy else 0.0
    run = run_of(tmp_path, workers=3, held=held, spec={"strategy": strategy})
    lanes = slices(traced(run, tmp_path / "trace.json"))
    assert run.series is not None
    for rank, worker in enumerate(run.series):
        by_step: dict[int, dict[str, Any]] = defaultdict(dict)
        for event in lanes[rank, 0]:
            by_step[event["args"]["step"]][event["name"]] = event
        assert sorted(by_step) == list(range(60))
        for step, events in by_step.items():
            whole = events.pop(f"step {step}")
            begin, end = whole["ts"], whole["ts"] + whole["dur"]
            assert end - begin == pytest.approx(1e6 * (worker.end[step] - worker.begin[step]), abs=NANOSECOND)
            lengths = {name: event["dur"] for name, event in events.items()}
            blocked = lengths.pop("wait", 0.0) + lengths.pop("exchange", 0.0)
            assert blocked == pytest.approx(1e6 * worker.exchange[step], abs=3 * NANOSECOND)
            for name in USUAL.keys() - {"exchange"}:
                assert lengths.get(name, 0.0) == pytest.approx(1e6 * worker.of_phase(name)[step], abs=3 * NANOSECOND)
            for event in events.values():
                assert begin <= event["ts"] <= event["ts"] + event["dur"] <= end + NANOSECOND


def test_nothing_overlaps_within_a_lane(tmp_path: Path) -> None:
    run = run_of(tmp_path, workers=2, **BUCKETS)
    lanes = slices(traced(run, tmp_path / "trace.json"))
    assert (0, 2) in lanes, "buckets under way at the same time are on lanes of their own"
    for (_, lane), events in lanes.items():
        inner = [event for event in events if lane or not event["name"].startswith("step ")]
        inner.sort(key=lambda event: event["ts"])
        for before, after in itertools.pairwise(inner):
            assert before["ts"] + before["dur"] <= after["ts"] + NANOSECOND


def test_buckets_carry_their_moments_and_bytes(tmp_path: Path) -> None:
    run = run_of(tmp_path, **BUCKETS)
    events = traced(run, tmp_path / "trace.json", range(7, 8))
    assert run.series is not None
    worker, origin = run.series[1], min(w.begin[0] for w in run.series)
    shown = {
        e["args"]["bucket"]: e for e in events if e["pid"] == 1 and e["name"].startswith("bucket") and e["ph"] == "X"
    }
    ready = {e["args"]["bucket"]: e["ts"] for e in events if e["pid"] == 1 and e["ph"] == "i"}
    assert shown.keys() == ready.keys() == {0, 1, 2}
    rows = worker.bucket_step == 7
    for index, size, when, start, end in zip(
        *(worker.arrays()[f"bucket_{name}"][rows] for name in ("index", "bytes", "ready", "start", "end")), strict=True
    ):
        event = shown[int(index)]
        assert event["args"] == {"step": 7, "bucket": int(index), "bytes": int(size)}
        assert event["ts"] == pytest.approx(1e6 * (start - origin), abs=NANOSECOND)
        assert event["ts"] + event["dur"] == pytest.approx(1e6 * (end - origin), abs=2 * NANOSECOND)
        assert ready[int(index)] == pytest.approx(1e6 * (when - origin), abs=NANOSECOND)


def test_every_worker_and_lane_has_a_name(tmp_path: Path) -> None:
    events = traced(run_of(tmp_path, **BUCKETS), tmp_path / "trace.json")
    names = {(e["pid"], e["tid"], e["name"]): e["args"].get("name") for e in events if e["ph"] == "M"}
    assert names[1, 0, "process_name"] == "worker 1 (cpu:1)"
    assert names[1, 0, "thread_name"] == "phases"
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"}
    assert used == {(pid, tid) for pid, tid, what in names if what == "thread_name"}


def test_a_long_run_is_shown_by_its_first_timed_steps_and_a_sample(tmp_path: Path) -> None:
    run = run_of(tmp_path, workers=1, steps=3000, spec={"strategy": "independent"})
    events = traced(run, tmp_path / "trace.json")
    steps = sorted(event["args"]["step"] for event in events if event["name"].startswith("step "))
    assert len(steps) <= 400
    assert steps[:200] == list(range(WARMUP, WARMUP + 200))
    assert steps[-1] == 2999
    assert max(b - a for a, b in itertools.pairwise(steps)) < 20, "spread evenly"


def test_chosen_steps_alone_are_shown(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    events = traced(run, tmp_path / "trace.json", parse_steps("20-22"))
    assert {event["args"]["step"] for event in events if event["ph"] == "X"} == {20, 21, 22}
    with pytest.raises(SpecError, match="this run has steps 0 to 59"):
        write_trace(run, tmp_path / "other.json", parse_steps("60-70"))


@pytest.mark.parametrize("text", ["", "a-b", "5-2", "-3", "1-2-3"])
def test_a_range_of_steps_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--steps"):
        parse_steps(text)


def test_a_trace_needs_the_series_and_overwrites_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    file = tmp_path / "trace.json"
    file.write_text("mine")
    with pytest.raises(OutputError, match=r"trace.json exists"):
        write_trace(run, file)
    assert file.read_text() == "mine"
    with pytest.raises(OutputError, match="cannot be written"):
        write_trace(run, tmp_path / "no" / "folder.json")
    (run.folder / "series.npz").unlink()
    with pytest.raises(DataError, match=r"series.npz"):
        write_trace(StoredRun(run.folder, run.record), tmp_path / "new.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "trace.json"]

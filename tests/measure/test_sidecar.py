"""The sidecar: series come back as they were, and one that is damaged or of another run is named."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.quick import record_of

from paceline.errors import DataError
from paceline.measure import sidecar
from paceline.measure.series import WorkerSeries
from paceline.record import SIDECAR_NAME
from paceline.spec import RunSpec


def worker(steps: int = 4, step_seconds: float = 0.08, **more: Any) -> WorkerSeries:
    begin = np.arange(steps, dtype=np.float64) * step_seconds
    return WorkerSeries(begin=begin, end=begin + step_seconds, **more)


def test_series_come_back_in_order_of_rank(tmp_path: Path) -> None:
    workers = [worker(3 + rank, gradient_ready=np.full((2, 4), float(rank))) for rank in range(12)]
    sidecar.save(tmp_path, workers)
    loaded = sidecar.load(tmp_path)
    assert len(loaded) == 12
    for before, after in zip(workers, loaded, strict=True):
        for name, values in before.arrays().items():
            np.testing.assert_array_equal(values, after.arrays()[name])


def test_a_missing_or_damaged_sidecar_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"series.npz is not a readable sidecar"):
        sidecar.load(tmp_path)
    sidecar.save(tmp_path, [worker(300)])
    whole = (tmp_path / SIDECAR_NAME).read_bytes()
    for damaged in (b"", b"garbage", whole[: len(whole) // 2]):
        (tmp_path / SIDECAR_NAME).write_bytes(damaged)
        with pytest.raises(DataError, match=r"series.npz is not a readable sidecar"):
            sidecar.load(tmp_path)


@pytest.mark.parametrize("length", [1, 40])
def test_bytes_lost_anywhere_are_noticed_or_change_nothing(tmp_path: Path, length: int) -> None:
    noise = np.random.default_rng(0).random(100)
    sidecar.save(tmp_path, [worker(100, loss=noise), worker(100, loss=noise)])
    file, moments, noticed = tmp_path / SIDECAR_NAME, random.Random(0), 0
    whole, before = file.read_bytes(), sidecar.load(tmp_path)
    for _ in range(600):
        place = moments.randrange(len(whole) - length)
        harm = bytes(length) if length > 1 else bytes([moments.randrange(256)])
        file.write_bytes(whole[:place] + harm + whole[place + length :])
        try:
            after = sidecar.load(tmp_path)
        except DataError:
            noticed += 1
        else:
            assert [{k: v.tolist() for k, v in w.arrays().items()} for w in after] == [
                {k: v.tolist() for k, v in w.arrays().items()} for w in before
            ]
    assert noticed > 400


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "series of workers none"),
        ({"other": np.arange(3.0)}, "invalid literal"),
        ({"worker0_begin": np.arange(3.0)}, "worker 0 has no end"),
        ({f"worker{rank}_{name}": np.arange(3.0) for rank in (0, 2) for name in ("begin", "end")}, r"workers \[0, 2\]"),
        ({"worker0_begin": np.arange(3.0), "worker0_end": np.arange(4.0)}, "a begin and an end of every step"),
        ({"worker0_begin": np.array(["x"]), "worker0_end": np.array(["y"])}, "could not convert string"),
        ({"worker0_begin": np.array([{}]), "worker0_end": np.array([{}])}, "Object arrays cannot be loaded"),
    ],
)
def test_a_file_that_holds_other_things_is_refused(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    np.savez_compressed(tmp_path / SIDECAR_NAME, **arrays)
    with pytest.raises(DataError, match=f"series.npz is not a readable sidecar: .*{said}"):
        sidecar.load(tmp_path)


RECORD = record_of(RunSpec(workload="vae", workers=2, batch=8, steps=4), devices=2)  # 80 ms a step


def test_a_runs_own_sidecar_is_accepted(tmp_path: Path) -> None:
    sidecar.save(tmp_path, [worker(), worker()])
    sidecar.verify(tmp_path, RECORD)


def test_workers_that_do_not_wait_may_each_be_timed_from_their_own_step_on(tmp_path: Path) -> None:
    slow_begin = np.array([0.5, 0.5, 0.08, 0.08, 0.08, 0.08, 0.3])
    late = WorkerSeries(begin=np.cumsum(slow_begin) - slow_begin, end=np.cumsum(slow_begin))
    sidecar.save(tmp_path, [worker(), late])
    sidecar.verify(tmp_path, RECORD)


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (lambda: [worker()], "it has 1 workers, not 2"),
        (lambda: [worker(), worker(3)], "worker 1 has 3 steps of 4"),
        (lambda: [worker(), worker(step_seconds=0.081)], "the steps of worker 1 have other durations"),
    ],
)
def test_another_runs_sidecar_is_refused(tmp_path: Path, workers: Callable[[], list[WorkerSeries]], said: str) -> None:
    sidecar.save(tmp_path, workers())
    with pytest.raises(DataError, match=f"series.npz belongs to another run: {said}"):
        sidecar.verify(tmp_path, RECORD)


def test_warm_up_steps_are_there_too(tmp_path: Path) -> None:
    sidecar.save(tmp_path, [worker(), worker()])
    with pytest.raises(DataError, match="worker 0 has 4 steps of 6"):
        sidecar.verify(tmp_path, dataclasses.replace(RECORD, warmup_steps=2))

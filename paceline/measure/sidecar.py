"""Store every worker's series next to the record of the run."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from paceline.errors import DataError
from paceline.files import whole_file
from paceline.measure.series import Series, WorkerSeries
from paceline.record import SIDECAR_NAME, Record

_SAME = 1e-6
"""Relative difference allowed between means of the series and of the record, which sum in another order."""


def save(folder: Path, workers: Sequence[WorkerSeries]) -> None:
    """Write the sidecar into `folder` atomically."""
    named = {f"worker{rank}_{name}": values for rank, w in enumerate(workers) for name, values in w.arrays().items()}
    with whole_file(folder / SIDECAR_NAME) as out:
        np.savez_compressed(out, **named)  # type: ignore[arg-type]  # no name is allow_pickle


def load(folder: Path) -> list[WorkerSeries]:
    """Every worker's series, in order of rank."""
    file = folder / SIDECAR_NAME
    try:
        return _ranked(_read(file))
    except Exception as error:  # zipfile, zlib and NumPy raise unrelated errors for damaged files
        raise DataError(f"{file} is not a readable sidecar: {error or type(error).__name__}.") from error


def _read(file: Path) -> dict[str, Series]:
    """Read every member completely, so that its checksum is verified before use."""
    content = file.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    # A damaged directory may hide members; their number is stored in two bytes, twelve bytes before the end.
    expected = int.from_bytes(content[-12:-10], "little")
    if min(len(members), 0xFFFF) != expected:
        raise ValueError(f"only {len(members)} of its {expected} series are present")
    arrays = {name: np.lib.format.read_array(io.BytesIO(data)) for name, data in members.items()}
    return {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}


def _ranked(arrays: Mapping[str, Series]) -> list[WorkerSeries]:
    workers: dict[int, dict[str, Series]] = {}
    for named, values in arrays.items():
        worker, _, name = named.partition("_")
        workers.setdefault(int(worker.removeprefix("worker")), {})[name] = values
    ranks = sorted(workers)
    if not ranks or ranks != list(range(len(ranks))):
        raise ValueError(f"it has series of workers {ranks or 'none'}")
    needed = {"begin", "end", *workers[0]}
    for rank in ranks:
        if missing := sorted(needed - workers[rank].keys()):
            raise ValueError(f"worker {rank} has no {', '.join(missing)}")
    series = [WorkerSeries.of(workers[rank]) for rank in ranks]
    for rank, one in enumerate(series):
        if one.begin.shape != one.end.shape or one.end.ndim != 1:
            raise ValueError(f"worker {rank} does not have a begin and an end of every step")
    return series


def verify(folder: Path, record: Record) -> None:
    """Refuse a sidecar that is damaged or belongs to another run."""
    difference = _difference(load(folder), record)
    if difference is not None:
        raise DataError(f"{folder / SIDECAR_NAME} belongs to another run: {difference}.")


def _difference(workers: Sequence[WorkerSeries], record: Record) -> str | None:
    if len(workers) != len(record.per_worker):
        return f"it has {len(workers)} workers, not {len(record.per_worker)}"
    needed = record.warmup_steps + record.steps_timed
    for series, row in zip(workers, record.per_worker, strict=True):
        steps = len(series.end)
        if steps < needed:
            return f"worker {row.rank} has {steps} steps of {needed}"
        if not _has_stretch(series, row.steps, row.step_seconds):
            return f"the steps of worker {row.rank} have other durations"
    return None


def _has_stretch(series: WorkerSeries, steps: int, step_seconds: float) -> bool:
    """Whether any `steps` consecutive steps have this mean; asynchronous workers are timed from different steps on."""
    done = np.concatenate([[0.0], np.cumsum(series.end - series.begin)])
    means = (done[steps:] - done[:-steps]) / steps
    return bool(np.any(np.abs(means - step_seconds) <= _SAME * step_seconds))

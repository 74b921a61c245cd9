"""Every worker's series, beside the record of their run."""

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
"""How far a mean of the series may be from the record's, relatively: they are the same numbers, added up otherwise."""


def save(folder: Path, workers: Sequence[WorkerSeries]) -> None:
    """Write into `folder`, whole or not at all."""
    named = {f"worker{rank}_{name}": values for rank, w in enumerate(workers) for name, values in w.arrays().items()}
    with whole_file(folder / SIDECAR_NAME) as out:
        np.savez_compressed(out, **named)  # type: ignore[arg-type]  # no name is allow_pickle


def load(folder: Path) -> list[WorkerSeries]:
    """Every worker's series, in order of rank."""
    file = folder / SIDECAR_NAME
    try:
        return _ranked(_read(file))
    except Exception as error:  # whatever zipfile, zlib and NumPy come upon in a damaged file; they share no error
        raise DataError(f"{file} is not a readable sidecar: {error or type(error).__name__}.") from error


def _read(file: Path) -> dict[str, Series]:
    """Every member whole, so that its checksum is compared before anything is made of it."""
    content = file.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    # A damaged directory may hide members; how many there were stands twelve bytes before the end, in two of them.
    there = int.from_bytes(content[-12:-10], "little")
    if min(len(members), 0xFFFF) != there:
        raise ValueError(f"{len(members)} of its {there} series are there")
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
    """Refuse a sidecar that is damaged, or that is not of this record's run."""
    difference = _difference(load(folder), record)
    if difference is not None:
        raise DataError(f"{folder / SIDECAR_NAME} is of another run: {difference}.")


def _difference(workers: Sequence[WorkerSeries], record: Record) -> str | None:
    if len(workers) != len(record.per_worker):
        return f"it has {len(workers)} workers, not {len(record.per_worker)}"
    needed = record.warmup_steps + record.steps_timed
    for series, row in zip(workers, record.per_worker, strict=True):
        there = len(series.end)
        if there < needed:
            return f"worker {row.rank} has {there} steps of {needed}"
        if not _has_stretch(series, row.steps, row.step_seconds):
            return f"the steps of worker {row.rank} took another time there"
    return None


def _has_stretch(series: WorkerSeries, steps: int, step_seconds: float) -> bool:
    """Whether so many steps on end took so long each; workers that do not wait are timed each from its own step on."""
    done = np.concatenate([[0.0], np.cumsum(series.end - series.begin)])
    means = (done[steps:] - done[:-steps]) / steps
    return bool(np.any(np.abs(means - step_seconds) <= _SAME * step_seconds))

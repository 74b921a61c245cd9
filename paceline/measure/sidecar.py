"""Every worker's series, beside the record of their run."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paceline.errors import DataError
from paceline.measure.wallclock import WorkerSeries
from paceline.record import SIDECAR_NAME


def save(folder: Path, workers: Sequence[WorkerSeries]) -> None:
    """Write into `folder`."""
    named = {f"worker{rank}_{name}": values for rank, worker in enumerate(workers) for name, values in worker.items()}
    np.savez_compressed(folder / SIDECAR_NAME, **named)  # type: ignore[arg-type]  # no name is allow_pickle


def load(folder: Path) -> list[WorkerSeries]:
    """One mapping of arrays per worker, in order of rank."""
    file = folder / SIDECAR_NAME
    workers: dict[int, dict[str, np.ndarray]] = {}
    try:
        with np.load(file) as arrays:
            for named in arrays.files:
                worker, _, name = named.partition("_")
                workers.setdefault(int(worker.removeprefix("worker")), {})[name] = arrays[named]
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{file} is not a readable sidecar: {error}.") from error
    return [workers[rank] for rank in sorted(workers)]

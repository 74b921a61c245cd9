"""Load runs from paths: a record file, a run folder or a study folder."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from paceline.errors import DataError, SpecError, in_one_line
from paceline.measure import sidecar
from paceline.measure.scaling import Scaling
from paceline.measure.series import WorkerSeries
from paceline.record import FAILURE_NAME, FILE_NAME, SIDECAR_NAME, STUDY_NAME, Record


@dataclass(frozen=True)
class StoredRun:
    """A record with its folder and the series of every worker."""

    folder: Path
    record: Record

    @cached_property
    def series(self) -> Sequence[WorkerSeries] | None:
        """The series of every worker; None where the sidecar is missing or unreadable."""
        if not (self.folder / SIDECAR_NAME).is_file():
            return None
        try:
            series = sidecar.load(self.folder)
        except DataError:
            return None
        steps = [worker.steps for worker in self.record.per_worker]
        fits = len(series) == len(steps) and all(len(w.end) >= n for w, n in zip(series, steps, strict=True))
        return series if fits else None  # otherwise the sidecar belongs to another run

    @property
    def timed(self) -> slice:
        """The timed steps in the series."""
        return slice(self.record.warmup_steps, self.record.warmup_steps + self.record.steps_timed)


@dataclass(frozen=True)
class StoredRuns:
    """All runs of the given paths, with notes about them."""

    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...]
    scaling: Scaling | None = None
    """From the study; None without a study or where several studies differ."""


def find(paths: Sequence[Path]) -> StoredRuns:
    """All distinct runs of the paths, in order."""
    runs: dict[Path, StoredRun] = {}
    notes: list[str] = []
    scalings = {scaling_of(path) for path in paths}
    for path in paths:
        own = {file.resolve(): StoredRun(folder, Record.load(file)) for folder, file in _records(path, notes)}
        for file, run in sorted(own.items(), key=lambda item: _in_order(item[1].record)):
            runs.setdefault(file, run)
    return StoredRuns(tuple(runs.values()), tuple(notes), scalings.pop() if len(scalings) == 1 else None)


def scaling_of(folder: Path) -> Scaling | None:
    """Weak or strong, from the study description; None where the folder holds no study."""
    try:
        described = json.loads((folder / STUDY_NAME).read_text())
        scaling = described["scaling"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return scaling if scaling in ("weak", "strong") else None


def _in_order(record: Record) -> tuple[Any, ...]:
    """Sort key: by settings, with two workers before sixteen."""
    spec = record.spec
    shared = spec.workers_per_device
    return spec.workload, spec.strategy, spec.workers, shared, record.batch, spec.turn, spec.network or ""


def _records(path: Path, notes: list[str]) -> Iterator[tuple[Path, Path]]:
    if path.is_file():
        yield path.parent, path
    elif (path / FILE_NAME).is_file():
        yield path, path / FILE_NAME
    elif (path / STUDY_NAME).is_file():
        records = sorted(path.glob(f"runs/*/{FILE_NAME}"))
        failed = sorted(path.rglob(FAILURE_NAME))
        if not records:
            raise DataError(f"{path} is a study without a finished run: finish `paceline study` first.")
        notes.extend(f"A run of the study failed and is left out: {_failure(file)}" for file in failed)
        yield from ((file.parent, file) for file in records)
    elif (path / FAILURE_NAME).is_file():
        raise DataError(f"{path} holds a failed run, so there is nothing to explain: {_failure(path)}")
    elif path.exists():
        raise DataError(
            f"{path} holds neither {FILE_NAME} nor {STUDY_NAME}: give a record file, a run folder or a study folder."
        )
    else:
        raise DataError(f"{path} does not exist: give a record file, a run folder or a study folder.")


def _failure(path: Path) -> str:
    file = path / FAILURE_NAME if path.is_dir() else path
    try:
        content = json.loads(file.read_text())
        return in_one_line(str(content["message"]) or str(content["error"]), file)
    except (OSError, ValueError, KeyError, TypeError):
        return f"{file} cannot be read."


def of_one_machine(runs: Sequence[StoredRun], *, anyway: bool) -> tuple[tuple[StoredRun, ...], tuple[str, ...]]:
    """The runs, if all are of one machine; with `anyway`, treat them as if they were and note the differences."""
    differences = [
        f"{what}: {' / '.join(map(str, values))}" for what, values in _places(runs).items() if len(values) > 1
    ]
    if not differences:
        return tuple(runs), ()
    listed = "; ".join(differences)
    if not anyway:
        raise SpecError(
            f"These records cannot be compared: they differ in {listed}. Add --anyway to compare them regardless."
        )
    alike = tuple(dataclasses.replace(run, record=_as_if_on(run.record, runs[0].record)) for run in runs)
    return alike, (f"Compared on request, although the records differ in {listed}.",)


def _places(runs: Sequence[StoredRun]) -> dict[str, list[Any]]:
    """The facts that comparable records must share, with the values in these runs."""
    places: dict[str, list[Any]] = {}
    for run in runs:
        for what, value in run.record.environment.place.items():
            if value not in places.setdefault(what, []):
                places[what].append(value)
    sources: dict[str, set[str]] = {}
    for run in runs:
        sources.setdefault(run.record.spec.workload, set()).add(run.record.workload.data.source)
    return places | {f"data of {workload}": sorted(names) for workload, names in sources.items()}


def _as_if_on(record: Record, first: Record) -> Record:
    """The record as if it came from the machine and the data of the first one."""
    workload = record.workload
    if record.spec.workload == first.spec.workload:
        workload = dataclasses.replace(workload, data=first.workload.data)
    place = first.environment
    environment = dataclasses.replace(
        record.environment,
        host=place.host,
        system=place.system,
        processor=place.processor,
        cores=place.cores,
        device_kind=place.device_kind,
        versions=place.versions,
    )
    return dataclasses.replace(record, environment=environment, workload=workload)

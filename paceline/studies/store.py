"""A study's folder: runs appear in it whole or not at all, one process works in it, and nothing is overwritten.

study.json               what the study is, as resolved
runs/KEY/                a finished run: record.json and its sidecar
runs/.partial-KEY/       the run in progress; swept at the next start
failed/KEY/failure.json  a run that failed; tried again at the next start
damaged/KEY/             a run that could not be read, set aside
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.errors import DataError, OutputError
from paceline.files import sync, write_whole
from paceline.measure import sidecar
from paceline.migrations import SCHEMA_VERSION, migrated_settings
from paceline.record import FAILURE_NAME, FILE_NAME, STUDY_NAME, Record
from paceline.studies.grid import Cell, Grid, Run

STUDY_SCHEMA_VERSION = 1
_PARTIAL = ".partial-"
_LOCK = ".lock"
_FOLDERS = _RUNS, _FAILED, _DAMAGED = "runs", "failed", "damaged"
_NAMED = 3
"""How many strange files are named."""


@dataclass
class Contents:
    """What was found in a study's folder."""

    records: dict[str, Record] = field(default_factory=dict)
    """By the key of the run."""

    damaged: dict[str, str] = field(default_factory=dict)
    """Runs that cannot be read, and why."""

    failures: dict[str, dict[str, Any]] = field(default_factory=dict)


class Store:
    """The folder of one study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = folder / _RUNS

    def folder_of(self, run: Run) -> Path:
        """Where a finished run is."""
        return self._runs / run.key

    def check(self, grid: Grid) -> None:
        """Refuse a folder that holds another study, or one of a newer Paceline; nothing is touched.

        The same study may have grown: all that is there must still be asked for.
        """
        there = self._described()
        if there is None:
            return
        here = describe(grid)
        if there["fingerprint"] == here["fingerprint"]:
            return
        differences = list(_differences(there, here))
        if differences:
            raise OutputError(
                f"{self.folder} holds another study ({'; '.join(differences)}): choose another --out. "
                "A study may be extended there, but all that it has must still be asked for."
            )

    def _described(self) -> dict[str, Any] | None:
        file = self.folder / STUDY_NAME
        try:
            content = json.loads(file.read_text())
            version = content["schema_version"]
            if version <= STUDY_SCHEMA_VERSION:
                return _checked({name: content[name] for name in ("fingerprint", *_COMPARED, "cells")})
        except (FileNotFoundError, NotADirectoryError):
            self._refuse_strangers()
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise OutputError(
                f"{file} cannot be read ({type(error).__name__}: {error}): the runs beside it are kept. "
                "Choose another --out, or remove the file if they are of this study."
            ) from error
        raise OutputError(
            f"{file} has schema version {version}; this Paceline reads up to {STUDY_SCHEMA_VERSION}: update it."
        )

    def _refuse_strangers(self) -> None:
        if (self.folder / FILE_NAME).exists():
            raise OutputError(f"{self.folder} holds the record of a single run: choose another --out.")
        if self.folder.exists() and not self.folder.is_dir():
            raise OutputError(f"--out {self.folder} is not a folder: choose another.")
        try:
            there = sorted(p.name for p in self.folder.iterdir()) if self.folder.exists() else []
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        strange = [name for name in there if not name.startswith(".") and name not in _FOLDERS]
        if strange:
            told = ", ".join(strange[:_NAMED]) + (f" and {len(strange) - _NAMED} more" if strange[_NAMED:] else "")
            raise OutputError(
                f"--out {self.folder} holds other things ({told}) and no study: choose an empty folder, or a new one."
            )

    def read(self, runs: Iterable[Run]) -> Contents:
        """Records and failures of these runs; a record of a newer Paceline is refused, nothing is touched."""
        contents = Contents()
        for run in runs:
            folder = self.folder_of(run)
            if folder.exists():
                try:
                    contents.records[run.key] = _load(folder, run)
                except DataError as error:
                    _refuse_newer(folder / FILE_NAME, error)
                    contents.damaged[run.key] = str(error)
            elif (file := self._failure_file(run)).exists():
                with contextlib.suppress(OSError, ValueError, RecursionError):
                    failure = json.loads(file.read_text())
                    if isinstance(failure, dict) and all(isinstance(failure.get(k), str) for k in ("error", "message")):
                        contents.failures[run.key] = failure
        return contents

    @contextlib.contextmanager
    def opened(self, grid: Grid) -> Iterator[None]:
        """For writing, by one process at a time; whatever a killed one left half done is swept."""
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
            # The system lets go of this lock when the process ends, however it ends.
            lock = (self.folder / _LOCK).open("a+")
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise OutputError(
                    f"{self.folder} is in use by another `paceline study` (process {lock.read().strip()}): "
                    "wait for it to end, or choose another --out."
                ) from None
            try:
                lock.truncate(0)
                lock.write(str(os.getpid()))
                lock.flush()
                self.check(grid)  # again: another process may have begun a study here meanwhile
                write_json(self.folder / STUDY_NAME, describe(grid))
                for partial in self._runs.glob(f"{_PARTIAL}*"):
                    shutil.rmtree(partial)
            except OSError as error:
                raise _unwritable(self.folder, error) from error
            yield

    def set_aside(self, key: str) -> Path:
        """Move a run that cannot be read to where it is kept and not read again."""
        place = self.folder / _DAMAGED / key
        number = 1
        while place.exists():
            number += 1
            place = place.with_name(f"{key}-{number}")
        place.parent.mkdir(exist_ok=True)
        (self._runs / key).rename(place)
        return place

    @contextlib.contextmanager
    def new_run(self, run: Run) -> Iterator[Path]:
        """An empty folder for a run, which gets its name when the run is complete and on the disk."""
        partial = self._runs / f"{_PARTIAL}{run.key}"
        try:
            partial.mkdir()
            yield partial
            for file in partial.iterdir():
                sync(file)
            sync(partial)
            partial.rename(self.folder_of(run))
            sync(self._runs)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(self._failure_file(run).parent, ignore_errors=True)

    def note_failure(self, run: Run, error: Exception) -> dict[str, Any]:
        """Keep why a run failed; it is tried again at the next start."""
        failure = {"spec": run.spec.to_dict(), "error": type(error).__name__, "message": str(error)}
        file = self._failure_file(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, failure)
        return failure

    def _failure_file(self, run: Run) -> Path:
        return self.folder / _FAILED / run.key / FAILURE_NAME


_COMPARED = ("name", "scaling", "equal", "samples", "repeats")


def describe(grid: Grid) -> dict[str, Any]:
    """The resolved grid as plain data, with a fingerprint of all that makes it this study."""
    study = grid.study
    compared = {name: getattr(study, name) for name in _COMPARED}
    cells = {cell.key: _settings(cell) for cell in grid.cells}
    identity = json.dumps([compared, sorted(cells)], sort_keys=True)
    return {
        "schema_version": STUDY_SCHEMA_VERSION,
        "fingerprint": hashlib.sha256(identity.encode()).hexdigest(),
        **compared,
        "columns": list(study.columns),
        "per_epoch": study.per_epoch,
        "labels": {cell.key: cell.label for cell in grid.cells if cell.label is not None},
        "cells": cells,
    }


def _checked(there: dict[str, Any]) -> dict[str, Any]:
    """A description of the right shape: the file may have been changed by hand."""
    cells, repeats = there["cells"], there["repeats"]
    if not isinstance(cells, dict) or not all(isinstance(cell, dict) for cell in cells.values()):
        raise ValueError("cells is not a table of tables")
    if not isinstance(repeats, int):
        raise ValueError(f"repeats is {repeats!r}, not a whole number")
    return {**there, "cells": {key: migrated_settings(cell) for key, cell in cells.items()}}


def _settings(cell: Cell) -> dict[str, Any]:
    if cell.spec is None:
        return {**cell.settings, "impossible": cell.problem}
    return {name: value for name, value in cell.spec.to_dict().items() if name != "turn"}


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """What is no extension, setting by setting."""
    for name in _COMPARED:
        grown = name == "repeats" and here[name] >= there[name]
        if there[name] != here[name] and not grown:
            yield f"{name}: {there[name]} there, {here[name]} here"
    gone = [cell for key, cell in there["cells"].items() if key not in here["cells"] and "impossible" not in cell]
    if not gone:
        return
    told = False
    for name in gone[0]:
        values = [dict.fromkeys(str(c.get(name)) for c in side["cells"].values()) for side in (there, here)]
        if not values[0].keys() <= values[1].keys():
            told = True
            yield f"{name}: {', '.join(values[0])} there, {', '.join(values[1])} here"
    if not told:
        yield f"{len(gone)} of its combinations are not asked for here"


def _load(folder: Path, run: Run) -> Record:
    record = Record.load(folder)
    # What the plan leaves open (None) is resolved in the run.
    planned = {name: value for name, value in run.spec.to_dict().items() if value is not None}
    there = record.spec.to_dict()
    other = ", ".join(f"{name} {there[name]}" for name, value in planned.items() if there[name] != value)
    if other:
        raise DataError(f"{folder / FILE_NAME} is the record of another run ({other}).")
    sidecar.verify(folder, record)
    return record


def _refuse_newer(file: Path, error: DataError) -> None:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        if json.loads(file.read_text())["schema_version"] > SCHEMA_VERSION:
            raise error


def write_json(file: Path, content: Any) -> None:
    """Whole or not at all."""
    write_whole(file, json.dumps(content, indent=2))


def is_about_writing(error: OSError) -> bool:
    """Whether the folder is to blame, and every other run would fail as well."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


def _unwritable(folder: Path, error: OSError) -> OutputError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "make room" if full else "choose another folder, or change its permissions"
    return OutputError(f"--out {folder} cannot be written ({error.strerror}): {remedy}.")

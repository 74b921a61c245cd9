"""A study's folder: runs appear complete or not at all, one process writes, and nothing is overwritten.

study.json               what the study is, as resolved
runs/KEY/                a finished run: record.json and its sidecar
runs/.partial-KEY/       the run in progress; deleted at the next start
failed/KEY/failure.json  a run that failed; tried again at the next start
damaged/KEY/             a run that could not be read, moved here
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from paceline.errors import DataError, OutputError, cause_line
from paceline.files import sync, write_whole
from paceline.measure import sidecar
from paceline.migrations import SCHEMA_VERSION
from paceline.record import FAILURE_NAME, FILE_NAME, STUDY_NAME, Record
from paceline.settings import SettingValue
from paceline.studies.description import StudyDescription
from paceline.studies.grid import Grid, Run

_PARTIAL = ".partial-"
_LOCK = ".lock"
_FOLDERS = _RUNS, _FAILED, _DAMAGED = "runs", "failed", "damaged"
_NAMED = 3
"""The most unexpected files that a message names."""


@dataclass(frozen=True, kw_only=True)
class FailureNote:
    """The reason why a run failed, as saved in its folder."""

    spec: Mapping[str, SettingValue] = field(default_factory=dict)
    error: str
    """The name of the error's class."""

    message: str

    @property
    def first_line(self) -> str:
        """The error in one line."""
        return cause_line(self.message) or self.error


@dataclass
class Contents:
    """The runs in a study's folder."""

    records: dict[str, Record] = field(default_factory=dict)
    """Records, by the key of the run."""

    damaged: dict[str, str] = field(default_factory=dict)
    """Runs that cannot be read, with the reason."""

    failures: dict[str, FailureNote] = field(default_factory=dict)


class Store:
    """The folder of one study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = folder / _RUNS

    def folder_of(self, run: Run) -> Path:
        """The folder of a finished run."""
        return self._runs / run.key

    def check(self, grid: Grid) -> None:
        """Refuse a folder that holds another study, or one of a newer Paceline; changes nothing.

        The study may have been extended, but must still request everything that the folder holds.
        """
        try:
            there = StudyDescription.read(self.folder / STUDY_NAME)
        except (FileNotFoundError, NotADirectoryError):
            self._refuse_strangers()
            return
        here = StudyDescription.of(grid)
        if there.fingerprint == here.fingerprint:
            return
        differences = list(there.not_extended_by(here))
        if differences:
            raise OutputError(
                f"{self.folder} holds another study ({'; '.join(differences)}): choose another --out. "
                "A study may be extended, but must keep all its combinations."
            )

    def _refuse_strangers(self) -> None:
        if (self.folder / FILE_NAME).exists():
            raise OutputError(f"{self.folder} holds the record of a single run: choose another --out.")
        if self.folder.exists() and not self.folder.is_dir():
            raise OutputError(f"--out {self.folder} is not a folder: choose another path.")
        try:
            there = sorted(p.name for p in self.folder.iterdir()) if self.folder.exists() else []
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        strange = [name for name in there if not name.startswith(".") and name not in _FOLDERS]
        if strange:
            names = ", ".join(strange[:_NAMED]) + (f" and {len(strange) - _NAMED} more" if strange[_NAMED:] else "")
            raise OutputError(
                f"--out {self.folder} holds other files ({names}) and no study: choose an empty or a new folder."
            )

    def read(self, runs: Iterable[Run]) -> Contents:
        """Records and failures of these runs; refuses records of a newer Paceline; changes nothing."""
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
                with contextlib.suppress(OSError, msgspec.DecodeError, RecursionError):
                    contents.failures[run.key] = msgspec.json.decode(file.read_bytes(), type=FailureNote)
        return contents

    @contextlib.contextmanager
    def opened(self, grid: Grid) -> Iterator[None]:
        """Open for writing, by one process at a time; deletes unfinished runs of a killed process."""
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
            # The system releases this lock when the process ends, however it ends.
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
                self.check(grid)  # check again: another process may have started a study here
                _write_json(self.folder / STUDY_NAME, StudyDescription.of(grid))
                for partial in self._runs.glob(f"{_PARTIAL}*"):
                    shutil.rmtree(partial)
            except OSError as error:
                raise _unwritable(self.folder, error) from error
            yield

    def set_aside(self, key: str) -> Path:
        """Move a run that cannot be read to `damaged/`, where it is kept but not read again."""
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
        """An empty folder for a run; it gets its final name when the run is complete and on disk."""
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

    def note_failure(self, run: Run, error: Exception) -> FailureNote:
        """Save the reason why a run failed; the next start tries it again."""
        failure = FailureNote(spec=run.spec.to_dict(), error=type(error).__name__, message=str(error))
        file = self._failure_file(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_json(file, failure)
        return failure

    def _failure_file(self, run: Run) -> Path:
        return self.folder / _FAILED / run.key / FAILURE_NAME


def _load(folder: Path, run: Run) -> Record:
    record = Record.load(folder)
    # The run resolves what the plan leaves open (None).
    planned = {name: value for name, value in run.spec.to_dict().items() if value is not None}
    there = record.spec.to_dict()
    other = ", ".join(f"{name} {there[name]}" for name, value in planned.items() if there[name] != value)
    if other:
        raise DataError(f"{folder / FILE_NAME} is the record of another run ({other}).")
    sidecar.verify(folder, record)
    return record


def _refuse_newer(file: Path, error: DataError) -> None:
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        if json.loads(file.read_text()).get("schema_version") > SCHEMA_VERSION:
            raise error


def _write_json(file: Path, content: StudyDescription | FailureNote) -> None:
    write_whole(file, json.dumps(msgspec.to_builtins(content), indent=2))


def is_about_writing(error: OSError) -> bool:
    """Whether the error concerns the folder, so that every other run would fail as well."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


def _unwritable(folder: Path, error: OSError) -> OutputError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free some space" if full else "choose another folder, or change its permissions"
    return OutputError(f"--out {folder} cannot be written ({error.strerror}): {remedy}.")

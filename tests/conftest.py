"""What holds for every test: nothing is left behind, and in CI nothing is skipped."""

import json
import multiprocessing.util
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import jsonschema
import psutil
import pytest
import torch

from paceline.record import Record
from paceline.workloads.data import idx

torch.set_num_threads(1)  # tests run side by side, and threads that wait for one another by spinning hold all up

_KEPT = ("forkserver", "resource_tracker")
_SCHEMA = Path(__file__).parent.parent / "docs" / "record.schema.json"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip is fine on a user's machine; where everything is installed it hides a test that did not run."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("PACELINE_FORBID_SKIPS"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"must not be skipped here, but was: {reason}"
    return report


@pytest.fixture(scope="session", autouse=True)
def _every_record_satisfies_the_published_schema() -> Iterator[None]:
    """Whatever record a test writes is checked as its readers would: the file, against the schema in `docs/`."""
    validator = jsonschema.Draft202012Validator(json.loads(_SCHEMA.read_text()))
    save = Record.save

    def save_and_check(record: Record, folder: Path) -> Path:
        path = save(record, folder)
        validator.validate(json.loads(path.read_text()))
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Record, "save", save_and_check)
        yield


@pytest.fixture(scope="session", autouse=True)
def _temporary_folder_of_this_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Temporary files go to a folder of our own, so that tests running side by side do not see one another's."""
    multiprocessing.util.get_temp_dir()  # made before, because it is removed after everything else
    tmp_path_factory.getbasetemp()  # pytest's own folder stays where it was
    with tempfile.TemporaryDirectory(prefix="pl-") as folder:
        previous = tempfile.tempdir, os.environ.get("TMPDIR")
        tempfile.tempdir, os.environ["TMPDIR"] = folder, folder
        yield Path(folder)
        tempfile.tempdir = previous[0]
        os.environ.pop("TMPDIR")
        if previous[1] is not None:
            os.environ["TMPDIR"] = previous[1]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(_temporary_folder_of_this_process: Path) -> Iterator[None]:
    """No process, temporary file, shared memory or changed environment survives a test."""
    environment = dict(os.environ)
    before, files_before = _children(), _files(_temporary_folder_of_this_process)
    yield
    left = {pid: name for pid, name in _children().items() if pid not in before}
    assert not left, f"processes left behind: {left}"
    files = _files(_temporary_folder_of_this_process) - files_before
    assert not files, f"temporary files left behind: {sorted(files)}"
    changed = {k for k in {**environment, **os.environ} if environment.get(k) != os.environ.get(k)}
    assert changed <= {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}, f"environment changed: {changed}"


def _files(folder: Path) -> set[str]:
    """What is in a temporary folder, without what others put there.

    torch makes a cache when an optimizer is first used. Python tries a folder out with a small file of eight letters;
    a process that is killed at that moment, as some tests do, leaves it.
    """
    kept = re.compile(r"torchinductor_.*|[a-z0-9_]{8}")
    return {entry.name for entry in folder.iterdir() if not kept.fullmatch(entry.name)}


def _children() -> dict[int, str]:
    """Descendants of this process, without the two helpers that multiprocessing keeps."""
    children = {}
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
            if child.status() != psutil.STATUS_ZOMBIE and not (
                any(word in command for word in _KEPT) and child.ppid() == os.getpid()
            ):
                children[child.pid] = command
        except psutil.NoSuchProcess:
            continue
    return children


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with real data sets."""
    folder = os.environ.get("PACELINE_DATA")
    if not folder:
        pytest.skip("PACELINE_DATA is not set: there is no real data to try")
    return Path(folder)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine without data sets: neither the user's nor Debian's."""
    monkeypatch.delenv("PACELINE_DATA", raising=False)
    monkeypatch.setattr(idx, "DEBIAN_FASHION_MNIST", tmp_path / "not-installed")

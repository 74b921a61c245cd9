"""GPUs at the seam: counted from the driver's folder, placed, and shared through the MPS daemon; no GPU is needed."""

import os
from pathlib import Path

import pytest

from paceline.devices import cuda
from paceline.devices.base import Demand, Placement
from paceline.errors import DeviceError


def place(gpus: int, workers: int, **demand: object) -> Placement:
    return cuda.place(Demand(workers=workers, **{"workers_per_device": 1, **demand}), gpus)  # type: ignore[arg-type]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver that shows four GPUs."""
    folder = tmp_path / "gpus"
    for number in range(4):
        (folder / f"0000:0{number}:00.0").mkdir(parents=True)
    monkeypatch.setattr(cuda, "_DRIVER", folder)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return folder


def test_gpus_are_those_that_the_driver_shows(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda.available_gpus() == 4
    monkeypatch.setattr(cuda, "_DRIVER", driver / "missing")
    assert cuda.available_gpus() == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert cuda.available_gpus() == 0


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        ("", 0),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("0", 1),
        (" 3 , 1 ", 2),
        ("0,1,2,3", 4),
        ("0,1,2,3,0", 4),
        ("0,-1,1", 1),
        ("0,4,1", 1),
        ("7", 0),
        ("GPU-8932f937,GPU-46331233", 2),
        ("MIG-GPU-1/0/0", 1),
    ],
)
def test_visible_devices_are_counted_as_cuda_does_up_to_the_first_that_is_none(
    driver: Path, monkeypatch: pytest.MonkeyPatch, visible: str, count: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert cuda.available_gpus() == count


def test_workers_with_a_gpu_each_exchange_over_nccl() -> None:
    placement = place(4, workers=3)
    assert [slot.device for slot in placement.workers] == ["cuda:0", "cuda:1", "cuda:2"]
    assert (placement.kind, placement.backend, placement.devices) == ("cuda", "nccl", 3)


def test_workers_that_share_a_gpu_exchange_over_gloo_because_nccl_refuses_them() -> None:
    placement = place(2, workers=4, workers_per_device=2)
    assert [slot.device for slot in placement.workers] == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
    assert (placement.backend, placement.devices) == ("gloo", 2)


def test_servers_take_free_gpus_or_share_the_workers() -> None:
    own = place(4, workers=2, servers=2)
    assert [slot.device for slot in own.servers] == ["cuda:2", "cuda:3"]
    assert (own.server_place, own.devices) == ("own", 4)
    shared = place(4, workers=3, servers=2)
    assert [slot.device for slot in shared.servers] == ["cuda:0", "cuda:1"]
    assert (shared.server_place, shared.devices) == ("shared", 3)
    assert place(4, workers=2, servers=1, server_place="shared").devices == 2
    with pytest.raises(
        DeviceError, match=r"place=own needs 2 more GPUs, but this machine has 1 left: use place=shared"
    ):
        place(4, workers=3, servers=2, server_place="own")


@pytest.mark.parametrize(("gpus", "workers", "fitting"), [(1, 4, 4), (2, 4, 2), (4, 6, 2)])
def test_too_many_workers_are_refused_with_the_sharing_that_would_fit(gpus: int, workers: int, fitting: int) -> None:
    with pytest.raises(DeviceError) as refused:
        place(gpus, workers=workers)
    assert f"needs {workers} GPUs, but this machine has {gpus}: add --workers-per-device {fitting}" in str(
        refused.value
    )
    assert place(gpus, workers=workers, workers_per_device=fitting).devices <= gpus


def test_without_gpus_the_remedy_is_the_cpu() -> None:
    with pytest.raises(DeviceError, match="this machine has 0: use --device cpu"):
        place(0, workers=1)


_DAEMON = """#!/bin/sh
if [ "$1" = -d ]; then
    sleep 60 > /dev/null 2>&1 &
    echo "$! $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" > "{notes}/started"
    echo busy > "$CUDA_MPS_LOG_DIRECTORY/control.log"
else
    read order
    echo "$order $CUDA_MPS_PIPE_DIRECTORY" > "{notes}/told"
    read pid rest < "{notes}/started"
    kill "$pid"
fi
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where the stand-in of the daemon writes down what it was told."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def install(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = tmp_path / "bin" / "nvidia-cuda-mps-control"
    control.parent.mkdir()
    control.write_text(text)
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{control.parent}:{os.environ['PATH']}")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_mps_daemon_lives_as_long_as_the_run(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(_DAEMON.format(notes=notes), tmp_path, monkeypatch)
    with cuda.mps_daemon() as environment:
        pid, *folders = (notes / "started").read_text().split()
        assert folders == [environment["CUDA_MPS_PIPE_DIRECTORY"], environment["CUDA_MPS_LOG_DIRECTORY"]]
        assert all(Path(folder).is_dir() for folder in folders)
        assert is_alive(int(pid))
        assert not (notes / "told").exists()
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert (notes / "told").read_text().split() == ["quit", folders[0]]
    assert not Path(folders[0]).parent.exists()


def test_the_mps_daemon_is_told_to_quit_when_the_run_fails(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(_DAEMON.format(notes=notes), tmp_path, monkeypatch)
    with pytest.raises(ZeroDivisionError), cuda.mps_daemon():
        raise ZeroDivisionError
    assert (notes / "told").read_text().startswith("quit")


def test_a_daemon_that_does_not_start_is_a_refusal_with_its_own_words(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        f'#!/bin/sh\necho "$CUDA_MPS_PIPE_DIRECTORY" > {notes}/pipe\necho "no GPU here" >&2\nexit 3\n',
        tmp_path,
        monkeypatch,
    )
    with (
        pytest.raises(DeviceError, match=r"MPS daemon did not start: no GPU here. Use --mps off"),
        cuda.mps_daemon(),
    ):
        raise AssertionError("a run must not begin without its daemon")
    assert not Path((notes / "pipe").read_text().strip()).exists()


def test_a_machine_without_the_daemon_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"needs nvidia-cuda-mps-control, .*use --mps off"), cuda.mps_daemon():
        raise AssertionError("a run must not begin without its daemon")

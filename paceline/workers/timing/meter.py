"""How busy the cores of a device were while its workers trained, and with whose work."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import psutil

from paceline.workers.report import CoreUse

NOT_MEASURED = CoreUse()


class Meter(Protocol):
    """Adds up over stretches of training; pauses for validation and checkpoints do not count."""

    def resume(self) -> None:
        """Training continues."""

    def pause(self) -> None:
        """Training pauses or ends."""

    def use(self) -> CoreUse:
        """The use over all stretches of training."""


class CoreMeter:
    """Meter of a worker on CPU cores, its own or shared with others."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = cores
        self._seconds = self._busy = self._stolen = self._loaders = 0.0
        self._since: tuple[float, tuple[float, float] | None, float] | None = None
        self._blind = False

    def resume(self) -> None:
        """Training continues."""
        self._since = (time.perf_counter(), self._core_seconds(), _children_seconds())

    def pause(self) -> None:
        """Training pauses or ends."""
        if self._since is None:
            return
        begun, before, loaders = self._since
        now, after = time.perf_counter(), self._core_seconds()
        self._seconds += now - begun
        self._loaders += max(0.0, _children_seconds() - loaders)
        if before is None or after is None:
            self._blind = True
        else:
            self._busy += after[0] - before[0]
            self._stolen += after[1] - before[1]
        self._since = None

    def use(self) -> CoreUse:
        """The use over all stretches of training."""
        available = self._seconds * len(self._cores)
        if not available:
            return NOT_MEASURED
        busy, stolen = (
            None if self._blind else min(100.0, 100 * seconds / available) for seconds in (self._busy, self._stolen)
        )
        loaders = 100 * self._loaders / available if self._loaders else None
        return CoreUse(busy_percent=busy, loader_percent=loaders, stolen_percent=stolen)

    def _core_seconds(self) -> tuple[float, float] | None:
        """Seconds since the start that this worker's cores were busy, and the part that other virtual machines used."""
        times = psutil.cpu_times(percpu=True)
        if not self._cores or max(self._cores) >= len(times):
            return None
        # Linux counts guests of this machine in user and nice, and once more by themselves.
        uncounted = ("idle", "iowait", "guest", "guest_nice")
        idle = (sum(getattr(times[core], name, 0.0) for name in uncounted) for core in self._cores)
        stolen = sum(getattr(times[core], "steal", 0.0) for core in self._cores)
        return float(sum(sum(times[core]) for core in self._cores) - sum(idle)), float(stolen)


class GpuMeter:
    """Meter of a worker on a GPU: reads the driver a few times a second. Not run on a GPU so far."""

    def __init__(self, read: Callable[[], float], every_seconds: float = 0.25) -> None:
        self._read = read
        self._every = every_seconds
        self._readings: list[float] = []
        self._training = threading.Event()
        threading.Thread(target=self._sample, name="paceline-gpu-meter", daemon=True).start()

    def _sample(self) -> None:
        while True:
            self._training.wait()
            self._readings.append(self._read())
            time.sleep(self._every)

    def resume(self) -> None:
        """Training continues."""
        self._training.set()

    def pause(self) -> None:
        """Training pauses or ends."""
        self._training.clear()

    def use(self) -> CoreUse:
        """The use over all stretches; the driver's figure covers the time before each reading."""
        mean = sum(self._readings) / len(self._readings) if self._readings else None
        return CoreUse(busy_percent=mean)


class NoMeter:
    """Meter of a worker on a GPU whose driver cannot be read."""

    def resume(self) -> None:
        """Nothing to note."""

    def pause(self) -> None:
        """Nothing to note."""

    def use(self) -> CoreUse:
        """Nothing."""
        return NOT_MEASURED


def meter_for(cores: Sequence[int], gpu: str | None) -> Meter:
    """The meter of a worker on `cores`, or on the GPU with the identifier `gpu`."""
    if gpu is None:
        return CoreMeter(cores or sorted(psutil.Process().cpu_affinity()))
    try:
        import pynvml  # of nvidia-ml-py, the extra `gpu`
    except ImportError:
        return NoMeter()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu)
    return GpuMeter(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu))


def _children_seconds() -> float:
    """CPU time of this process's living children."""
    seconds = 0.0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            seconds += times.user + times.system
    return seconds

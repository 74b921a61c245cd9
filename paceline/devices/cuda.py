"""CUDA devices and the MPS daemon. Not run on a GPU so far: tests use stand-ins for the driver and the daemon."""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from paceline import numbers
from paceline.devices.base import Demand, Placement, Slot, fitting
from paceline.errors import DeviceError

_DRIVER = Path("/proc/driver/nvidia/gpus")


def available_gpus() -> int:
    """How many GPUs the driver shows to this process; needs no torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len(list(_DRIVER.iterdir())) if _DRIVER.is_dir() else 0
    if visible is None:
        return present
    # As CUDA reads it: the first name that is no GPU ends the list.
    return min(present, len(list(itertools.takewhile(lambda name: _is_gpu(name.strip(), present), visible.split(",")))))


def _is_gpu(name: str, present: int) -> bool:
    """Whether this is the index of a present GPU, or the identifier of a GPU or a MIG instance."""
    return int(name) < present if name.isdecimal() else name.startswith(("GPU-", "MIG-"))


def place(demand: Demand, gpus: int) -> Placement:
    """Slots on GPUs. NCCL refuses two ranks on one GPU, so workers that share one exchange over gloo."""
    if demand.nodes > 1:
        raise DeviceError(
            "--device cuda cannot be combined with a testbed: GPUs would bypass its links. Use --device cpu."
        )
    needed = demand.workers // demand.workers_per_device
    if needed > gpus:
        raise DeviceError(
            f"--workers {demand.workers} with --workers-per-device {demand.workers_per_device} needs "
            f"{numbers.count(needed, 'GPU')}, but this machine has {gpus}: "
            + (f"{fitting(demand.workers, gpus)}." if gpus else "use --device cpu.")
        )
    workers = tuple(Slot(f"cuda:{rank // demand.workers_per_device}") for rank in range(demand.workers))
    backend: Literal["gloo", "nccl"] = "nccl" if demand.workers_per_device == 1 else "gloo"
    if not demand.servers:
        return Placement("cuda", backend, workers)
    free = gpus - needed
    chosen = demand.server_place or ("own" if free >= demand.servers else "shared")
    if chosen == "own" and free < demand.servers:
        raise DeviceError(
            f"ps:place=own needs {numbers.count(demand.servers, 'more GPU')}, but this machine has {free} left: "
            "use place=shared."
        )
    first, count = (needed, free) if chosen == "own" else (0, needed)
    servers = tuple(Slot(f"cuda:{first + i % count}") for i in range(demand.servers))
    return Placement("cuda", backend, workers, servers, chosen)


@contextlib.contextmanager
def mps_daemon() -> Iterator[dict[str, str]]:
    """Run NVIDIA's MPS control daemon during a run; yield the environment that workers need."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        raise DeviceError("--mps on needs nvidia-cuda-mps-control, which is not installed: use --mps off.")
    # The daemon may still be tidying up there when it has been asked to quit; that must not cost the run its record.
    with tempfile.TemporaryDirectory(prefix="paceline-mps-", ignore_cleanup_errors=True) as folder:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for path in environment.values():
            os.mkdir(path)
        merged = {**os.environ, **environment}
        started = subprocess.run([control, "-d"], env=merged, capture_output=True, text=True, timeout=30)
        if started.returncode:
            raise DeviceError(f"The MPS daemon did not start: {started.stderr.strip()[:200]}. Use --mps off.")
        try:
            yield environment
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run([control], input="quit\n", env=merged, capture_output=True, text=True, timeout=30)

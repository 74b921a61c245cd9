"""`paceline doctor`: what this machine offers, what is missing and how to get it."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from paceline.devices import cpu, cuda
from paceline.errors import DataError
from paceline.numbers import count
from paceline.references.published import known_devices
from paceline.testbed import tools

_GOOD, _MISSING = "[green]yes[/green]", "[yellow]no[/yellow]"


def doctor() -> None:
    """Show what this machine offers (devices, backends, engines, data), what is missing, and how to get it."""
    from rich.table import Table

    from paceline.cli.terminal import console

    table = Table(title=f"paceline on {platform.node()}", title_justify="left")
    for heading in ("what", "here", "details, or how to get it"):
        table.add_column(heading, overflow="fold")
    for name, good, details in [*_devices(), *_backends(), *_engines(), *_testbed(), *_data()]:
        table.add_row(name, _GOOD if good else _MISSING, details)
    console(markup=True).print(table)


def _devices() -> Iterator[tuple[str, bool, str]]:
    cores = cpu.available_cores()
    yield "device cpu", True, f"{count(len(cores), 'core')} ({', '.join(map(str, cores))}), one device each"
    gpus = cuda.available_gpus()
    yield "device cuda", gpus > 0, count(gpus, "GPU") if gpus else "this process sees no NVIDIA GPU"
    mps = shutil.which("nvidia-cuda-mps-control")
    yield "MPS daemon", mps is not None, mps or "comes with NVIDIA's driver; needed only for several workers per GPU"


def _backends() -> Iterator[tuple[str, bool, str]]:
    try:
        import torch.distributed as dist

        version = importlib.metadata.version("torch")
    except ImportError as error:
        yield "torch", False, f"{error}: pip install -c constraints.txt paceline"
        return
    yield "torch", True, version
    yield "backend gloo", dist.is_gloo_available(), "communication between workers on CPU, or on a shared GPU"
    nccl = dist.is_nccl_available()
    yield "backend nccl", nccl, "communication between GPUs" if nccl else "needs a CUDA build of torch"
    zmq = importlib.metadata.version("pyzmq") if _has("zmq") else None
    yield "ZeroMQ", zmq is not None, f"parameter servers, pyzmq {zmq}" if zmq else "pip install pyzmq"


def _engines() -> Iterator[tuple[str, bool, str]]:
    yield "engine local", True, "`paceline train`: worker processes on this machine"
    yield "engine torchrun", _has("torch"), "for paceline.replicate in your own script; comes with torch"
    shared = Path("/dev/shm")
    free = shutil.disk_usage(shared).free if shared.is_dir() else 0
    yield "shared memory", free > 2**28, f"{free / 1e9:.1f} GB free for loaders; in a container raise --shm-size"


def _testbed() -> Iterator[tuple[str, bool, str]]:
    why = tools.missing()
    yield (
        "testbed",
        why is None,
        why or "`paceline testbed`: several emulated hosts on this machine, with links of a chosen bandwidth",
    )
    yield "emulated devices", True, f"--device emulated:NAME, with published rates: {', '.join(known_devices())}"
    if why is None:
        delay = tools.can_delay()
        missing = "this kernel has no netem: you can set bandwidths, but not latencies"
        yield "testbed: latency", delay, "netem" if delay else missing


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _data() -> Iterator[tuple[str, bool, str]]:
    from paceline.workloads.data import folder

    variable = os.environ.get("PACELINE_DATA")
    try:
        root = folder.root()
    except DataError as error:
        yield "PACELINE_DATA", False, str(error)
        return
    yield "PACELINE_DATA", root is not None, variable or "not set: workloads use generated data"
    for name, places, what in (
        ("digits", ("mnist", "fashion-mnist"), "MNIST idx files, plain or .gz"),
        ("road frames", ("driving",), "driving_log.csv and IMG/"),
        ("sentence pairs", ("wmt14", "multi30k", "text"), "train.en and train.de, plain or .gz"),
    ):
        place = folder.find(places) if root is not None else None
        yield f"data: {name}", place is not None, str(place or f"put {what} into $PACELINE_DATA/{places[0]}")

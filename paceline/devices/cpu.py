"""CPU devices: a device is a set of cores, one by default; workers are pinned to theirs."""

import os

from paceline.devices.base import Demand, Placement, Slot, fitting_workers_per_device
from paceline.errors import DeviceError


def available_cores() -> tuple[int, ...]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def bf16_kernels_work() -> bool:
    """Whether oneDNN's bfloat16 kernels run here: some virtual machines advertise AMX and then trap on it.

    Tried in a forked child, which dies in our place. Call it before this process has threads of its own.
    """
    child = os.fork()
    if child == 0:
        import torch

        torch.set_num_threads(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.Linear(64, 64)(torch.ones(64, 64))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def place(demand: Demand, cores: tuple[int, ...]) -> Placement:
    """Slots for workers, filling device after device, then for servers."""
    width = demand.cores_per_device
    devices = [cores[i : i + width] for i in range(0, len(cores) - width + 1, width)]
    needed = demand.workers // demand.workers_per_device
    _refuse_too_many(demand, needed, len(devices), len(cores))
    threads = max(1, width // demand.workers_per_device)
    workers = tuple(_slot(devices[rank // demand.workers_per_device], threads) for rank in range(demand.workers))
    if not demand.servers:
        return Placement("cpu", "gloo", workers)
    free = devices[needed:]
    chosen = demand.server_place or ("own" if len(free) >= demand.servers else "shared")
    if chosen == "own" and len(free) < demand.servers:
        raise DeviceError(
            f"ps:place=own needs {demand.servers} devices beside the workers' {needed}, but {len(free)} are free: "
            f"use fewer servers or workers, or place=shared."
        )
    homes = free if chosen == "own" else devices[:needed]
    servers = tuple(_slot(homes[i % len(homes)], width if chosen == "own" else 1) for i in range(demand.servers))
    return Placement("cpu", "gloo", workers, servers, chosen)


def _slot(cores: tuple[int, ...], threads: int) -> Slot:
    return Slot(f"cpu:{cores[0]}" if len(cores) == 1 else f"cpu:{cores[0]}-{cores[-1]}", cores, threads)


def _refuse_too_many(demand: Demand, needed: int, devices: int, cores: int) -> None:
    if needed <= devices:
        return
    if devices == 0:
        raise DeviceError(f"--cores-per-device {demand.cores_per_device} is more than the {cores} cores there are.")
    fitting = fitting_workers_per_device(demand.workers, devices)
    raise DeviceError(
        f"--workers {demand.workers} with --workers-per-device {demand.workers_per_device} needs {needed} devices of "
        f"{demand.cores_per_device} core(s), but this machine has {devices}: add --workers-per-device {fitting}."
    )

"""CPU devices: a device is a set of cores, one by default; workers are pinned to theirs."""

import os
from dataclasses import replace

from paceline.devices.base import Demand, Placement, Slot, fitting, node_of
from paceline.errors import DeviceError
from paceline.numbers import count


def available_cores() -> tuple[int, ...]:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def bf16_kernels_work() -> bool:
    """Whether oneDNN's bfloat16 kernels run here: some virtual machines advertise AMX and then trap on it.

    Tested in a forked child, which may crash. Call it before this process has threads of its own.
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
    """Slots for workers, one device after the other, then for servers."""
    width = demand.cores_per_device
    devices = [cores[i : i + width] for i in range(0, len(cores) - width + 1, width)]
    needed = demand.workers // demand.workers_per_device
    _refuse_too_many(demand, needed, len(devices), len(cores))
    threads = max(1, width // demand.workers_per_device)
    homes = [devices[rank // demand.workers_per_device] for rank in range(demand.workers)]
    workers = tuple(
        _slot(home, threads, node_of(rank, demand.workers, demand.nodes)) for rank, home in enumerate(homes)
    )
    if not demand.servers:
        return Placement("cpu", "gloo", workers)
    free = devices[needed:]
    chosen = demand.server_place or ("own" if len(free) >= demand.servers else "shared")
    if chosen == "own" and len(free) < demand.servers:
        raise DeviceError(
            f"ps:place=own needs {count(demand.servers, 'device')} beside the workers' {needed}, but this machine has "
            f"{len(free)} left: use fewer servers or workers, or place=shared."
        )
    if chosen == "own":
        servers = tuple(_slot(free[i], width, i % demand.nodes) for i in range(demand.servers))
    else:
        servers = tuple(_shared(workers, i % demand.nodes, i // demand.nodes) for i in range(demand.servers))
    return Placement("cpu", "gloo", workers, servers, chosen)


def _shared(workers: tuple[Slot, ...], node: int, number: int) -> Slot:
    """A server's slot on a device of its node's workers, in rotation."""
    homes = list({slot.device: slot for slot in workers if slot.node == node}.values())
    return replace(homes[number % len(homes)], threads=1)


def _slot(cores: tuple[int, ...], threads: int, node: int) -> Slot:
    device = f"cpu:{cores[0]}" if len(cores) == 1 else f"cpu:{cores[0]}-{cores[-1]}"
    return Slot(device, cores, threads, node)


def _refuse_too_many(demand: Demand, needed: int, devices: int, cores: int) -> None:
    if needed <= devices:
        return
    if devices == 0:
        raise DeviceError(
            f"--cores-per-device {demand.cores_per_device} is more than the {cores} available: use fewer."
        )
    raise DeviceError(
        f"--workers {demand.workers} with --workers-per-device {demand.workers_per_device} needs "
        f"{count(needed, 'device')} of {count(demand.cores_per_device, 'core')}, but this machine has {devices}: "
        f"{fitting(demand.workers, devices)}."
    )

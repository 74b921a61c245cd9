"""Real worker processes for tests: forked from a server that has torch loaded, joined over gloo."""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from paceline import netns
from paceline.engines.forking import PRELOADED
from paceline.netns import Host
from paceline.strategies.group import Group, TorchGroup


def without_coverage() -> dict[str, str]:
    """The environment of a program that is watched itself: coverage would import and print more than it does."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def run_workers(
    size: int, work: Callable[..., Any], *args: Any, seconds: float = 200, hosts: Sequence[Host] = ()
) -> list[Any]:
    """Run `work(group, *args)` in `size` processes, on loopback or on a host each; the results in order of rank."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    pipes, processes = [], []
    with _listener(hosts) as listener:
        store = listener.getsockname()
        for rank in range(size):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_one,
                args=(rank, size, store, hosts, listener if rank == 0 else None, theirs, work, args),
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
    try:
        results = []
        for rank, pipe in enumerate(pipes):
            assert pipe.poll(seconds), f"worker {rank} did not answer within {seconds} s"
            try:
                good, result = pipe.recv()
            except EOFError:
                raise AssertionError(f"worker {rank} died without an answer") from None
            if not good:
                raise AssertionError(f"worker {rank} failed:\n{result}")
            results.append(result)
        return results
    finally:
        for process in processes:
            process.kill()
            process.join()


def _listener(hosts: Sequence[Host]) -> socket.socket:
    if not hosts:
        return socket.create_server(("127.0.0.1", 0))
    return netns.inside(hosts[0].namespace, lambda: socket.create_server((hosts[0].address, 0)))


def _one(
    rank: int,
    size: int,
    address: tuple[str, int],
    hosts: Sequence[Host],
    listener: socket.socket | None,
    pipe: Any,
    work: Callable[..., Any],
    args: Any,
) -> None:
    torch.set_num_threads(1)
    if hosts:
        netns.enter(hosts[rank].namespace)
    os.environ["GLOO_SOCKET_IFNAME"] = hosts[rank].interface if hosts else "lo"
    try:
        descriptor = listener.detach() if listener is not None else None
        store = TCPStore(*address, size, listener is not None, master_listen_fd=descriptor)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
        assert dist.group.WORLD is not None
        group: Group = TorchGroup(dist.group.WORLD, store, local_rank=rank)
        result = work(group, *args)
        group.barrier()
        pipe.send((True, result))
        dist.destroy_process_group()
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    os._exit(0)

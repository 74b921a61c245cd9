"""Real worker processes for tests: forked from a server that has torch loaded, joined over gloo on loopback."""

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from paceline.engines.local import PRELOADED
from paceline.strategies.group import Group, TorchGroup


def run_workers(size: int, work: Callable[..., Any], *args: Any, seconds: float = 90) -> list[Any]:
    """Run `work(group, *args)` in `size` processes; the results in order of rank."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    pipes, processes = [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for rank in range(size):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_one, args=(rank, size, port, listener if rank == 0 else None, theirs, work, args)
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


def _one(
    rank: int, size: int, port: int, listener: socket.socket | None, pipe: Any, work: Callable[..., Any], args: Any
) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        descriptor = listener.detach() if listener is not None else None
        store = TCPStore("127.0.0.1", port, size, listener is not None, master_listen_fd=descriptor)
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

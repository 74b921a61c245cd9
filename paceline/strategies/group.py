"""The group of workers: rank, size, node and the collectives between them."""

import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store

_REMEMBERED = 8
"""The number of collectives whose tensors are tracked: more than gloo's two threads, which may be late."""


class Pending(Protocol):
    """A collective in flight."""

    def wait(self) -> object:
        """Return when it is done."""


class Gathering(Protocol):
    """An all-gather in flight."""

    def wait(self) -> list[Tensor]:
        """Wait, then return the tensors of all workers in order of rank."""


class Group(Protocol):
    """Rank, size, node and the collectives, with counters of the payload of each pattern."""

    rank: int
    size: int
    node: int
    local_rank: int
    tally: "Counter[str]"
    """Payload bytes by pattern, as `paceline.traffic` names them, since it was last cleared."""

    process_group: dist.ProcessGroup | None
    """torch's process group, for libraries that need it; None in the in-process group."""

    def all_reduce(self, tensor: Tensor, then: Callable[[], None] | None = None) -> Pending:
        """Start summing `tensor` over all workers, in place; `then` is called, by any thread, once it is done."""

    def all_gather_async(self, tensor: Tensor, then: Callable[[], None] | None = None) -> Gathering:
        """Start gathering `tensor` from all workers, of the same size on each; `then` as for `all_reduce`."""

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        """Copy `tensor` of `root` to all workers, in place."""

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The `tensor` of every worker, in order of rank: for a few numbers that do not count as traffic."""

    def barrier(self) -> None:
        """Return when all workers have arrived."""

    def publish(self, key: str, value: str) -> None:
        """Publish a string to the other workers, once per key."""

    def lookup(self, key: str) -> str:
        """The string published under `key`; waits for it."""


class _TorchGathering:
    def __init__(self, work: dist.Work, gathered: list[Tensor]) -> None:
        self._work = work
        self._gathered = gathered

    def wait(self) -> list[Tensor]:
        """Wait, then return the tensors of all workers in order of rank."""
        self._work.wait()
        return self._gathered


class TorchGroup:
    """Workers as processes, over torch.distributed: gloo or NCCL."""

    def __init__(self, process_group: dist.ProcessGroup, store: Store, *, node: int = 0, local_rank: int) -> None:
        self.process_group: dist.ProcessGroup | None = process_group
        self.rank = dist.get_rank(process_group)
        self.size = dist.get_world_size(process_group)
        self.node = node
        self.local_rank = local_rank
        self.tally: Counter[str] = Counter()
        self._store = store
        self._lent: deque[list[weakref.ref[Tensor]]] = deque(maxlen=_REMEMBERED)
        # NCCL moves only GPU tensors; gloo takes tensors on any device.
        nccl = dist.get_backend(process_group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if nccl else None

    def all_reduce(self, tensor: Tensor, then: Callable[[], None] | None = None) -> Pending:
        """Start summing `tensor` over all workers, in place; `then` is called, by any thread, once it is done."""
        self.tally["ring"] += tensor.nbytes
        (lent,) = self._lend(tensor)
        work: dist.Work = dist.all_reduce(lent, group=self.process_group, async_op=True)
        if then is not None:
            work.get_future().then(lambda _: then())
        return work

    def all_gather_async(self, tensor: Tensor, then: Callable[[], None] | None = None) -> Gathering:
        """Start gathering `tensor` from all workers, of the same size on each; `then` as for `all_reduce`."""
        self.tally["gather"] += tensor.nbytes
        own = tensor.contiguous()
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        lent, *empty = self._lend(own, *gathered)
        work: dist.Work = dist.all_gather(empty, lent, group=self.process_group, async_op=True)
        if then is not None:
            work.get_future().then(lambda _: then())
        return _TorchGathering(work, gathered)

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        """Copy `tensor` of `root` to all workers, in place."""
        self.tally["broadcast"] += tensor.nbytes
        (lent,) = self._lend(tensor)
        dist.broadcast(lent, src=root, group=self.process_group)

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The `tensor` of every worker, in order of rank."""
        own = tensor.to(self._device) if self._device else tensor
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        lent, *empty = self._lend(own, *gathered)
        dist.all_gather(empty, lent, group=self.process_group)
        return [part.to(tensor.device) for part in gathered]

    def barrier(self) -> None:
        """Return when all workers have arrived."""
        dist.barrier(group=self.process_group)

    def _lend(self, *tensors: Tensor) -> list[Tensor]:
        """The same memory in tensor objects that only the collective holds, so that their release can be detected."""
        lent = [tensor.detach() for tensor in tensors]
        self._lent.append([weakref.ref(tensor) for tensor in lent])
        return lent

    def quiesce(self, timeout_seconds: float = 5) -> None:
        """Return when no thread of the process group holds a tensor any more; call it before Python exits.

        A collective is done before its thread releases the tensors, and the release needs the interpreter: a thread
        that is too late for it aborts the whole process.
        """
        deadline = time.monotonic() + timeout_seconds
        while any(ref() is not None for refs in self._lent for ref in refs) and time.monotonic() < deadline:
            time.sleep(0.001)

    def publish(self, key: str, value: str) -> None:
        """Publish a string to the other workers, once per key."""
        self._store.set(key, value)

    def lookup(self, key: str) -> str:
        """The string published under `key`; waits for it."""
        self._store.wait([key], timedelta(seconds=300))
        return str(self._store.get(key), "utf-8")


class _Done:
    def wait(self) -> None:
        """It is done already."""


class _Gathered:
    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = tensors

    def wait(self) -> list[Tensor]:
        """The tensors, which are gathered already."""
        return self._tensors


class _Meeting:
    """Where the threads of an in-process group meet: each one contributes a value and sees all of them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.values: list[object] = [None] * size
        self.barrier = threading.Barrier(size)
        self.published: dict[str, str] = {}
        self.news = threading.Condition()

    def gather(self, rank: int, tensor: Tensor) -> list[Tensor]:
        self.values[rank] = tensor.detach().clone()
        self.barrier.wait(timeout=60)
        gathered = [v for v in self.values if isinstance(v, Tensor)]
        self.barrier.wait(timeout=60)  # no thread contributes the next value before all have seen this one
        return gathered


class InProcessGroup:
    """Workers as threads of one process, for tests of strategies that need no processes."""

    process_group: dist.ProcessGroup | None = None
    node = 0

    def __init__(self, rank: int, meeting: _Meeting) -> None:
        self.rank = self.local_rank = rank
        self.size = meeting.size
        self.tally: Counter[str] = Counter()
        self._meeting = meeting

    def all_reduce(self, tensor: Tensor, then: Callable[[], None] | None = None) -> Pending:
        """Sum `tensor` over all workers, in place, in order of rank."""
        self.tally["ring"] += tensor.nbytes
        tensor.copy_(torch.stack(self._meeting.gather(self.rank, tensor)).sum(0))
        if then is not None:
            then()
        return _Done()

    def all_gather_async(self, tensor: Tensor, then: Callable[[], None] | None = None) -> Gathering:
        """Gather `tensor` from all workers."""
        self.tally["gather"] += tensor.nbytes
        gathered = self._meeting.gather(self.rank, tensor)
        if then is not None:
            then()
        return _Gathered(gathered)

    def broadcast(self, tensor: Tensor, root: int = 0) -> None:
        """Copy `tensor` of `root` to all workers, in place."""
        self.tally["broadcast"] += tensor.nbytes
        with torch.no_grad():
            tensor.copy_(self._meeting.gather(self.rank, tensor)[root])

    def all_gather(self, tensor: Tensor) -> list[Tensor]:
        """The `tensor` of every worker, in order of rank."""
        return self._meeting.gather(self.rank, tensor)

    def barrier(self) -> None:
        """Return when all workers have arrived."""
        self._meeting.barrier.wait(timeout=60)

    def publish(self, key: str, value: str) -> None:
        """Publish a string to the other workers, once per key."""
        with self._meeting.news:
            self._meeting.published[key] = value
            self._meeting.news.notify_all()

    def lookup(self, key: str) -> str:
        """The string published under `key`; waits for it."""
        with self._meeting.news:
            if not self._meeting.news.wait_for(lambda: key in self._meeting.published, timeout=60):
                raise TimeoutError(f"no worker published {key!r}")
            return self._meeting.published[key]


def run_in_process(size: int, work: Callable[[Group], object]) -> list[object]:
    """Run `work` once per rank, each in a thread with its group; return the results in order of rank."""
    meeting = _Meeting(size)
    results: list[object] = [None] * size
    failures: list[BaseException] = []

    def one(rank: int) -> None:
        try:
            results[rank] = work(InProcessGroup(rank, meeting))
        except BaseException as error:
            failures.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise next((f for f in failures if not isinstance(f, threading.BrokenBarrierError)), failures[0])
    return results

"""Linux network namespaces: a file descriptor holds one, a thread enters it, and it ends with its last user."""

import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

_CLONE_NEWNET = 0x40000000
T = TypeVar("T")


@dataclass(frozen=True)
class Host:
    """A node with a network of its own: plain data, which a worker process receives."""

    name: str
    namespace: str
    """A path to its network namespace, valid as long as the process that made it lives."""

    address: str
    interface: str


def make() -> int:
    """Return a descriptor of a new namespace. It has no name: the kernel removes it when its holder ends in any way."""

    def unshare() -> int:
        _call("unshare", _CLONE_NEWNET)
        return os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)

    return _in_a_thread(unshare)


def path_of(descriptor: int) -> str:
    """Where other processes of the same user find a namespace that this one holds."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def enter(namespace: str) -> None:
    """Move this thread, and the threads and processes that it will start, into a namespace."""
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        _call("setns", descriptor, _CLONE_NEWNET)
    finally:
        os.close(descriptor)


def inside(namespace: str, work: Callable[[], T]) -> T:
    """Run `work` inside a namespace and return its result; sockets that it opens stay in that namespace."""

    def there() -> T:
        enter(namespace)
        return work()

    return _in_a_thread(there)


def _in_a_thread(work: Callable[[], T]) -> T:
    """Run in a new thread: a thread has a namespace of its own, and leaves it when it ends."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work).result()


def _call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")

"""Testbeds for tests: real namespaces, or a skip that says why there are none; and what can be seen of them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from paceline import netns
from paceline.netns import Host
from paceline.testbed import hosts, tools


@contextlib.contextmanager
def real_testbed(nodes: int = 2, network: str = "100Mbps") -> Iterator[hosts.Testbed]:
    need_root_and_tools()
    with hosts.Testbed(hosts.site(nodes, network)) as made:
        yield made


def need_root_and_tools() -> None:
    why = tools.missing()
    if why is not None:
        pytest.skip(f"a testbed cannot run here: {why}")


def sent_bytes(host: Host) -> int:
    """What has left a host by its link, by the kernel's count: headers included, and every packet at its size."""

    def count() -> int:
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        (line,) = [line for line in lines if line.strip().startswith(f"{host.interface}:")]
        return int(line.split(":")[1].split()[8])

    return netns.inside(host.namespace, count)


def namespace_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def namespaces() -> dict[int, list[int]]:
    """Every network namespace that a process is in, or holds a descriptor of, with these processes."""
    found: dict[int, list[int]] = {}
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            for path in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()):
                with contextlib.suppress(OSError):  # closed meanwhile
                    if os.readlink(path).startswith("net:"):
                        found.setdefault(path.stat().st_ino, []).append(pid)
    return found

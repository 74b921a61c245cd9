"""The tools a testbed is made with, `ip` and `tc` of iproute2, run inside namespaces; and whether they are there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from paceline import netns
from paceline.errors import DeviceError

_PATIENCE_SECONDS = 60
_SBIN = "/usr/sbin:/sbin"  # where they are, also when it is not on the path of who asks


def missing() -> str | None:
    """Why there can be no testbed here, and what to do about it; None where there can be one."""
    if sys.platform != "linux":
        return "it needs Linux, whose network namespaces are its nodes"
    absent = [name for name in ("ip", "tc") if _find(name) is None]
    if absent:
        return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed: apt install iproute2"
    if os.geteuid() != 0:
        return "it needs root to make network namespaces: put sudo before the command"
    return None


def require_tools() -> None:
    """Refuse, in a line that says what to do, where there can be no testbed."""
    why = missing()
    if why is not None:
        raise DeviceError(f"There can be no testbed here: {why}.")


def run_batch(tool: str, namespace: str, lines: Sequence[str]) -> None:
    """Have a tool carry out its lines inside a namespace, all of them or with an error."""
    done = _run(tool, namespace, lines)
    if done.returncode:
        answer = done.stderr.strip().partition("\n")[0][:300]
        hint = " In a container it needs --cap-add NET_ADMIN." if "not permitted" in answer else ""
        raise DeviceError(f"The testbed could not be made: {tool} says {answer!r}.{hint}")


def _run(tool: str, namespace: str, lines: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    command = [_find(tool) or tool, "-batch", "-"]
    written = "".join(f"{line}\n" for line in lines)
    return netns.inside(
        namespace,
        lambda: subprocess.run(command, input=written, capture_output=True, text=True, timeout=_PATIENCE_SECONDS),
    )


def can_delay() -> bool:
    """Whether this kernel can delay packets: netem is not in every one. Tried in a namespace that is gone at once."""
    try:
        descriptor = netns.make()
    except OSError:
        return False
    try:
        tried = _run("tc", netns.path_of(descriptor), ["qdisc add dev lo root netem delay 1us"])
        return tried.returncode == 0
    finally:
        os.close(descriptor)


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_SBIN}")

"""Run the tools of a testbed, `ip` and `tc` of iproute2, inside namespaces; and check that they are installed."""

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
    """Why a testbed cannot run here, and what to do about it; None where it can."""
    if sys.platform != "linux":
        return "it needs Linux, whose network namespaces are its nodes"
    absent = [name for name in ("ip", "tc") if _find(name) is None]
    if absent:
        return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed: apt install iproute2"
    if os.geteuid() != 0:
        return "it needs root to make network namespaces: put sudo before the command"
    try:
        os.close(netns.make())
    except OSError as error:
        return f"this system makes no network namespace ({error.strerror}): in a container, run it with --privileged"
    return None


def require_tools() -> None:
    """Raise an error that gives the remedy where a testbed cannot run."""
    why = missing()
    if why is not None:
        raise DeviceError(f"A testbed cannot run here: {why}.")


def run_batch(tool: str, namespace: str, lines: Sequence[str]) -> None:
    """Run all lines with a tool inside a namespace; raise if one fails."""
    done = _run(tool, namespace, lines)
    if done.returncode:
        answer = done.stderr.strip().partition("\n")[0][:300]
        hint = " In a container it needs --cap-add NET_ADMIN." if "not permitted" in answer else ""
        raise DeviceError(f"The testbed could not be made: {tool} reports {answer!r}.{hint}")


def _run(tool: str, namespace: str, lines: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    command = [_find(tool) or tool, "-batch", "-"]
    written = "".join(f"{line}\n" for line in lines)
    return netns.inside(
        namespace,
        lambda: subprocess.run(command, input=written, capture_output=True, text=True, timeout=_PATIENCE_SECONDS),
    )


def answer(tool: str, namespace: str, arguments: Sequence[str]) -> str:
    """What a tool prints inside a namespace; empty if it fails."""
    command = [_find(tool) or tool, *arguments]
    done = netns.inside(
        namespace, lambda: subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS)
    )
    return done.stdout if done.returncode == 0 else ""


def can_delay() -> bool:
    """Whether this kernel can delay packets: not every kernel has netem. Tested in a temporary namespace."""
    descriptor = netns.make()
    try:
        tried = _run("tc", netns.path_of(descriptor), ["qdisc add dev lo root netem delay 1us"])
        return tried.returncode == 0
    finally:
        os.close(descriptor)


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{_SBIN}")

"""Server processes from their worker's side: start, monitor and stop them; without torch."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from paceline.errors import ServerLost
from paceline.recipe import OptimizerRecipe
from paceline.traffic.ps import Mode

START_SECONDS = 120
_END_SECONDS = 5
_STDERR_LINES = 8


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """The configuration of a server: plain data, one JSON line."""

    number: int
    workers: int
    mode: Mode
    bound: int | None
    recipe: OptimizerRecipe
    sizes: Mapping[str, int]
    """Elements of its range of each flat buffer, by dtype."""

    cores: Sequence[int] | None = None
    """Cores that it is pinned to, with one thread each; None for no pinning and one thread."""

    address: str | None = None
    """Address of its node, if workers are on several nodes; None to listen on a socket file."""

    device: str = "cpu"
    codec: str | None = None
    """The codec of the gradients that workers push, as written in a chain; None for unencoded gradients."""

    def to_json(self) -> str:
        """The configuration as JSON, for the server's stdin."""
        return json.dumps({**asdict(self), "recipe": self.recipe.to_json()})

    @classmethod
    def from_json(cls, text: str) -> "ServerConfig":
        """The inverse of `to_json`."""
        values = json.loads(text)
        return cls(**{**values, "recipe": OptimizerRecipe.from_json(values["recipe"])})


class ServerHandle(Protocol):
    """A running server."""

    def endpoint(self) -> str:
        """Where it listens; waits until it does."""

    def failure(self) -> str | None:
        """How it ended; None while it runs."""

    def wait(self, seconds: float) -> None:
        """Give it time to end by itself, as it does when all workers have left."""

    def close(self) -> None:
        """End it; afterwards nothing of it is left."""


def socket_path(endpoint: str) -> Path | None:
    """The socket file behind an `ipc://` endpoint; other endpoints have none."""
    return Path(endpoint.removeprefix("ipc://")) if endpoint.startswith("ipc://") else None


def remove_socket(endpoint: str | None) -> None:
    """Remove the socket file that a killed server left behind."""
    path = socket_path(endpoint) if endpoint is not None else None
    if path is not None:
        shutil.rmtree(path.parent, ignore_errors=True)


def how_it_ended(code: int, written: str) -> str:
    """How a server ended, in words, with the last lines of its output."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"{how}." + "".join(f"\n  {line}" for line in written.splitlines()[-_STDERR_LINES:])


class ServerProcess:
    """A server in a process of its own. It exits when its stdin closes, so also when its worker is killed."""

    def __init__(self, config: ServerConfig) -> None:
        self._number = config.number
        self._endpoint: str | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "paceline.strategies.ps.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            # the recipe may name a class that only this process's path contains
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # Ctrl-C in the terminal is for the workers
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._stdin.write(config.to_json().encode() + b"\n")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def endpoint(self) -> str:
        """Where it listens; waits until it does."""
        if self._endpoint is None:
            ready, _, _ = select.select([self._stdout], [], [], START_SECONDS)
            if not ready:
                raise ServerLost(f"Parameter server {self._number} did not start within {START_SECONDS} s.")
            line = self._stdout.readline()
            if not line:
                self.wait(_END_SECONDS)
                raise ServerLost(f"Parameter server {self._number} did not start: it {self.failure()}")
            self._endpoint = json.loads(line)["endpoint"]
        return self._endpoint

    def failure(self) -> str | None:
        """How it ended, with the last lines of its stderr; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        self._errors.seek(0)
        return how_it_ended(code, self._errors.read().decode(errors="replace"))

    def wait(self, seconds: float) -> None:
        """Give it time to end by itself."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return

    def close(self) -> None:
        """End it; afterwards nothing of it is left."""
        self._stdin.close()
        self.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()
        self._stdout.close()
        self._errors.close()
        remove_socket(self._endpoint)


@dataclass(frozen=True, kw_only=True)
class ServerSite:
    """Where servers run and listen, and how they are started."""

    cores: Sequence[Sequence[int]] | None = None
    """The cores of each server; None for no pinning."""

    addresses: Sequence[str] | None = None
    """The address of each server's node, if workers are on several nodes; None for this node."""

    launch: Callable[[ServerConfig], ServerHandle] = ServerProcess
    timeout_seconds: float | None = None
    """How long a worker waits for an answer; None for as long as the servers run."""

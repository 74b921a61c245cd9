"""Servers that an engine started in advance, with torch already loaded: they wait for their configuration."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from paceline import netns
from paceline.errors import ServerLost
from paceline.netns import Host
from paceline.strategies.ps.launch import START_SECONDS, ServerConfig, ServerHandle, remove_socket

_END_SECONDS = 5


class SpareServer:
    """A waiting server, configured over the pipe to it. It exits when this end of the pipe closes."""

    def __init__(self, config: ServerConfig, line: "Connection[bytes, bytes]") -> None:
        self._number = config.number
        self._line = line
        self._endpoint: str | None = None
        self._line.send_bytes(config.to_json().encode())

    def endpoint(self) -> str:
        """Where it listens; waits until it does."""
        if self._endpoint is None:
            try:
                if not self._line.poll(START_SECONDS):
                    raise ServerLost(f"Parameter server {self._number} did not start within {START_SECONDS} s.")
                self._endpoint = self._line.recv_bytes().decode()
            except (EOFError, OSError):
                raise ServerLost(f"Parameter server {self._number} did not start.") from None
        return self._endpoint

    def failure(self) -> str | None:
        """Only whether it ended, which closes the pipe; the engine knows how."""
        return "is gone." if self._line.poll() else None

    def wait(self, seconds: float) -> None:
        """Give it time to end by itself."""
        self._line.poll(seconds)

    def close(self) -> None:
        """End it; afterwards nothing of it is left."""
        self._line.close()
        remove_socket(self._endpoint)


def launcher(lines: "list[Connection[bytes, bytes]]") -> Callable[[ServerConfig], ServerHandle]:
    """Assigns the waiting servers, one after the other."""
    waiting: Iterator[Connection[bytes, bytes]] = iter(lines)
    return lambda config: SpareServer(config, next(waiting))


def serve_on_request(line: "Connection[bytes, bytes]", log: Path, host: Host | None) -> None:
    """The entry point of a spare server: its configuration arrives over `line`, and it exits when that closes."""
    if host is not None:
        netns.enter(host.namespace)
    from paceline.strategies.ps.server import pin, serve

    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(written, 1)
    os.dup2(written, 2)
    tempfile.tempdir = str(log.parent)
    try:
        config = ServerConfig.from_json(line.recv_bytes().decode())
    except EOFError:
        return  # the run ended before it started
    pin(config)
    serve(config, line.fileno(), lambda endpoint: line.send_bytes(endpoint.encode()))
    sys.stdout.flush()

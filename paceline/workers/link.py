"""A worker's line to the process that started it: JSON out, orders in, and the end of one ends the other."""

import json
import os
import shutil
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from paceline.workers.timing.clock import Clock

_PROGRESS_EVERY_SECONDS = 0.25


class ParentLink:
    """Messages are JSON, never pickled. A thread listens, so that a busy or hanging worker still answers."""

    def __init__(self, connection: "Connection[bytes, bytes]", scratch: Path) -> None:
        self._connection = connection
        self._scratch = scratch
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._enough = threading.Event()
        self._last_progress = 0.0
        self.phase = "start-up"
        self.step = 0
        self.clock: Clock | None = None
        threading.Thread(target=self._listen, name="link", daemon=True).start()

    def send(self, kind: str, **content: Any) -> None:
        """Tell the parent."""
        with self._lock:
            self._connection.send_bytes(json.dumps({"kind": kind, **content}).encode())

    def progress(self, **content: Any) -> None:
        """Tell the parent how far it is, a few times a second at the most."""
        now = time.perf_counter()
        if now - self._last_progress >= _PROGRESS_EVERY_SECONDS:
            self._last_progress = now
            self.send("progress", **content)

    def asked_to_stop(self) -> bool:
        """Whether the parent wants an orderly end."""
        return self._stop.is_set()

    def enough_everywhere(self) -> bool:
        """Whether every worker's rate is known as well as was asked for."""
        return self._enough.is_set()

    def _listen(self) -> None:
        while True:
            try:
                order = json.loads(self._connection.recv_bytes())["order"]
            except (EOFError, OSError):
                # The parent is gone: nobody waits for this worker any more, or tidies up after it.
                shutil.rmtree(self._scratch, ignore_errors=True)
                os._exit(1)
            if order == "stop":
                self._stop.set()
            elif order == "enough":
                self._enough.set()
            elif order == "where":
                phase = self.clock.running if self.clock and self.phase == "training" else self.phase
                self.send("where", phase=phase, step=self.step)

"""A worker's connection to the process that started it: it sends messages, receives orders, and ends with it."""

import os
import shutil
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from paceline.workers.messages import Advanced, AnyMessage, Located, decode_order, encode
from paceline.workers.timing.clock import Clock

_PROGRESS_EVERY_SECONDS = 0.25


class ParentLink:
    """Messages are JSON, never pickled. A thread listens, so that a busy or hanging worker still answers."""

    def __init__(self, connection: "Connection[bytes, bytes]", scratch: Path) -> None:
        self._connection = connection
        self._scratch = scratch
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._all_precise = threading.Event()
        self._last_progress = 0.0
        self.phase = "start-up"
        self.step = 0
        self.clock: Clock | None = None
        threading.Thread(target=self._listen, name="link", daemon=True).start()

    def send(self, message: AnyMessage) -> None:
        """Send a message to the parent."""
        with self._lock:
            self._connection.send_bytes(encode(message))

    def progress(self, message: Advanced) -> None:
        """Report progress to the parent, a few times a second at the most."""
        now = time.perf_counter()
        if now - self._last_progress >= _PROGRESS_EVERY_SECONDS:
            self._last_progress = now
            self.send(message)

    def asked_to_stop(self) -> bool:
        """Whether the parent wants an orderly end."""
        return self._stop.is_set()

    def all_precise(self) -> bool:
        """Whether every worker has measured its throughput as precisely as the user asked for."""
        return self._all_precise.is_set()

    def _listen(self) -> None:
        while True:
            try:
                order = decode_order(self._connection.recv_bytes())
            except (EOFError, OSError):
                # The parent is gone: nobody waits for this worker any more, or tidies up after it.
                shutil.rmtree(self._scratch, ignore_errors=True)
                os._exit(1)
            if order == "stop":
                self._stop.set()
            elif order == "all precise":
                self._all_precise.set()
            else:
                phase = self.clock.running if self.clock and self.phase == "training" else self.phase
                self.send(Located(phase=phase, step=self.step))

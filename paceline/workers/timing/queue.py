"""How long a thread was ready to run and had to wait for a core: what tells a shared core from standing still."""

import math
import os

_NANOSECONDS = 1e9


class RunQueue:
    """Of the thread that makes it: Linux counts, in nanoseconds, its time on a core, then its time in the queue."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = None

    def seconds(self) -> float:
        """Since the thread began; not a number where the system does not count."""
        if self._file is None:
            return math.nan
        return int(os.pread(self._file, 64, 0).split()[1]) / _NANOSECONDS

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]

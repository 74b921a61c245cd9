"""How long a thread was ready to run but waited for a core; it tells a shared core from a blocked thread."""

import math
import os

_NANOSECONDS = 1e9


class RunQueue:
    """The run queue of the thread that creates it: Linux counts nanoseconds on a core, then in the queue."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = None

    def seconds(self) -> float:
        """Seconds in the queue since the thread began; NaN where the system does not count them."""
        if self._file is None:
            return math.nan
        return int(os.pread(self._file, 64, 0).split()[1]) / _NANOSECONDS

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]

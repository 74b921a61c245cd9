"""The server that workers are forked from: it imports what they need, once."""

import multiprocessing
import os
from multiprocessing.context import ForkServerContext
from pathlib import Path

from paceline.traffic.catalogue import MEMBERS

# Every optimizer imports torch._dynamo at its first call.
PRELOADED = [
    "paceline.workers.run",
    *(member.implementation.partition(":")[0] for member in MEMBERS.values()),
    "torch._dynamo",
    "paceline.engines.quiet",
]


def forking_context() -> ForkServerContext:
    """The context whose processes are forked from that server."""
    # torch makes this folder when it is imported, among the temporary files unless the variable is set.
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "paceline" / "torchinductor"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context

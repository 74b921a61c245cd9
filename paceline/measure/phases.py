"""Where the time of a step went, on average over the timed steps."""

from collections.abc import Sequence

import numpy as np

from paceline.measure.wallclock import WorkerSeries

_OWN_PHASES = ("input", "forward", "backward", "update", "other")


def mean_phases(workers: Sequence[WorkerSeries], timed: list[slice], *, synchronous: bool) -> dict[str, float]:
    """Mean seconds per step. wait_r = A − A_r, where A is the last arrival of all workers; exchange is the rest."""
    parts = list(zip(workers, timed, strict=True))
    phases = {name: float(np.mean([w[name][part].mean() for w, part in parts])) for name in _OWN_PHASES}
    blocked = float(np.mean([w["exchange"][part].mean() for w, part in parts]))
    wait = 0.0
    if synchronous:
        arrivals = np.array([w["arrival"][part] for w, part in parts])
        exchanges = np.array([w["exchange"][part] for w, part in parts])
        wait = float(np.clip(arrivals.max(axis=0) - arrivals, 0, exchanges).mean())
    return {**phases, "wait": wait, "exchange": blocked - wait}

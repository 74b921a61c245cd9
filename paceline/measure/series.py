"""Every step of one worker as arrays, from which all figures are computed."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]

THREAD_PHASES = ("input", "forward", "backward", "exchange", "update")
"""The columns of `thread_cpu` and `thread_queued`."""

_COUNTS = ("samples", "units", "loss", "bucket_step", "bucket_index", "bucket_bytes", "gradient_step")
"""Series that are not times."""


def _none() -> Series:
    return np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerSeries:
    """One worker. Times are seconds of a clock that all workers share; unmeasured series are empty or NaN."""

    begin: Series
    end: Series
    arrival: Series = field(default_factory=_none)
    """When its last gradient was ready."""

    backward_begin: Series = field(default_factory=_none)
    input: Series = field(default_factory=_none)
    forward: Series = field(default_factory=_none)
    backward: Series = field(default_factory=_none)
    exchange: Series = field(default_factory=_none)
    update: Series = field(default_factory=_none)
    other: Series = field(default_factory=_none)
    held: Series = field(default_factory=_none)
    """Seconds of the exchange in which a staleness bound blocked it."""

    agreed: Series = field(default_factory=_none)
    """Seconds in which it waited for the others' agreement when to stop."""

    cpu: Series = field(default_factory=_none)
    queued: Series = field(default_factory=_none)
    thread_cpu: Series = field(default_factory=_none)
    """One row for every step, one column for every phase: CPU time of the thread that trains; NaN where not read."""

    thread_queued: Series = field(default_factory=_none)
    """The same for the time in which it was ready to run but waited for a core."""

    samples: Series = field(default_factory=_none)
    units: Series = field(default_factory=_none)
    loss: Series = field(default_factory=_none)

    bucket_step: Series = field(default_factory=_none)
    """One entry for every bucket of every recorded step; also in the following series."""

    bucket_index: Series = field(default_factory=_none)
    bucket_bytes: Series = field(default_factory=_none)
    bucket_ready: Series = field(default_factory=_none)
    bucket_start: Series = field(default_factory=_none)
    bucket_end: Series = field(default_factory=_none)

    gradient_step: Series = field(default_factory=_none)
    """One row for every sampled step."""

    gradient_ready: Series = field(default_factory=_none)
    """A row of seconds since backward began, one for each tensor."""

    @classmethod
    def of(cls, arrays: Mapping[str, Series]) -> "WorkerSeries":
        """Make series from the arrays of a file; names of older versions are ignored."""
        known = {f.name for f in dataclasses.fields(cls)}
        return cls(**{name: values for name, values in arrays.items() if name in known})

    def arrays(self) -> dict[str, Series]:
        """The arrays by name, as files store them."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def of_phase(self, name: str) -> Series:
        """Seconds of every step in the phase called `name`."""
        seconds: Series = getattr(self, name)
        return seconds

    def rescaled(self, slow_motion: float) -> "WorkerSeries":
        """The series with all times divided by `slow_motion`."""
        times = {name: values for name, values in self.arrays().items() if name not in _COUNTS}
        return dataclasses.replace(self, **{name: values / slow_motion for name, values in times.items()})

"""The marks of all steps, kept as plain numbers during training and converted to phases afterwards."""

from array import array
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Phase: TypeAlias = Literal["input", "forward", "backward", "exchange", "update", "other"]
PHASES: tuple[Phase, ...] = ("input", "forward", "backward", "exchange", "update", "other")
_BEGIN = len(PHASES)
_CODES: dict[str, int] = {**{phase: code for code, phase in enumerate(PHASES)}, "begin": _BEGIN}


class Marks:
    """A sequence of marks: which phase ended, and when. Every step ends with `other`; a `begin` ends no phase."""

    def __init__(self) -> None:
        self.phases: list[Phase | Literal["begin"]] = []
        self.moments = array("d")
        """Times of the first marks; those of the latest marks may follow later."""

        self._ends: list[int] = []
        self._searched = 0

    def ends(self) -> list[int]:
        """Index of the last mark of each step whose times are known."""
        known = len(self.moments)
        self._ends += [at for at in range(self._searched, known) if self.phases[at] == "other"]
        self._searched = known
        return self._ends

    def seconds(self, step: int) -> float:
        """How long a step took."""
        ends = self.ends()
        begin = ends[step - 1] if step else 0
        while self.phases[begin + 1] == "begin":
            begin += 1
        return self.moments[ends[step]] - self.moments[begin]

    def last(self, phase: Phase) -> float:
        """When this phase last ended, as far as times are known."""
        at = len(self.moments) - 1
        while self.phases[at] != phase:
            at -= 1
        return self.moments[at]

    def steps(self) -> dict[str, npt.NDArray[np.float64]]:
        """For every step: begin, end, end of the last backward, end of the last forward, seconds of each phase."""
        ends = np.array(self.ends(), dtype=np.intp)
        known = ends[-1] + 1 if len(ends) else 0
        moments = np.array(self.moments[:known])
        codes = np.array([_CODES[phase] for phase in self.phases[:known]], dtype=np.intp)
        step_of = np.searchsorted(ends, np.arange(known))
        lasted = np.diff(moments, prepend=moments[:1])
        lasted[codes == _BEGIN] = 0.0
        seconds = np.zeros((len(ends), len(PHASES) + 1))
        np.add.at(seconds, (step_of, codes), lasted)
        follows = np.roll(codes, 1)[codes != _BEGIN] >= _CODES["other"]  # a begin, or the step before
        begin = moments[np.flatnonzero(codes != _BEGIN)[follows] - 1]
        table = {"begin": begin, "end": moments[ends]}
        for name, code in (("arrival", _CODES["backward"]), ("backward_begin", _CODES["forward"])):
            table[name] = begin.copy()
            there = codes == code
            table[name][step_of[there]] = moments[there]  # of several the last one stays
        return {**table, **{phase: seconds[:, code] for code, phase in enumerate(PHASES)}}

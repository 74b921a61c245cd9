"""The noise of this machine: equal settings in turns, what they show, and a note of it for later studies."""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from paceline.files import write_whole
from paceline.measure.families import TurnTable, families, smallest_difference, turns_needed
from paceline.measure.scaling import scaling_rows
from paceline.numbers import count, percent
from paceline.record import Record
from paceline.studies.definition import Study, Variant
from paceline.studies.grid import Grid

DIFFERENCES = (0.01, 0.02, 0.05)
FAMILIES = (2, 5, 10, 20)
_Z95 = 1.96
_MOST_KEPT = 50


@dataclass(frozen=True, kw_only=True)
class MachineNoise:
    """What equal settings in turns showed."""

    host: str
    workload: str
    strategy: str
    workers: int
    settings: int
    """How many equal settings ran in every turn."""

    turns: int
    noise: float
    """Standard deviation of a run's log rate within its turn."""

    measured: str
    """The day, as in `2026-11-18`."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the estimate."""
        return (self.settings - 1) * (self.turns - 1)

    @property
    def range(self) -> tuple[float, float]:
        """The 95 % interval of the noise, from the distribution of a variance (Wilson and Hilferty)."""
        spread = 2 / (9 * self.freedom)
        ends = (max(1 - spread + z * math.sqrt(spread), 0.05) ** 1.5 for z in (_Z95, -_Z95))
        low, high = (self.noise / end for end in ends)
        return low, high

    @property
    def smallest(self) -> float:
        """The smallest difference between two settings that as many turns can show."""
        return smallest_difference(self.noise, settings=2, turns=self.turns)

    def needed(self) -> dict[float, dict[int, int | None]]:
        """Turns that find a difference in nine of ten studies, by difference and number of settings."""
        return {d: {k: turns_needed(self.noise, d, settings=k) for k in FAMILIES} for d in DIFFERENCES}


def equal_settings(study: Study, settings: int) -> Study:
    """The study with as many variants that differ in nothing but their names, A, B and so on."""
    return replace(study, variants=tuple(Variant(_letter(number), {}) for number in range(settings)))


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def without_baselines(grid: Grid) -> Grid:
    """The grid without one worker alone, which noise does not need."""
    return Grid(grid.study, tuple(cell for cell in grid.cells if not cell.added))


def noise_of(records: Sequence[Record]) -> MachineNoise | None:
    """The noise of equal settings; None before two turns are complete."""
    found = families(scaling_rows(records))
    table: TurnTable | None = found[0].table if found else None
    if table is None or table.noise is None:
        return None
    first = records[0]
    return MachineNoise(
        host=first.environment.host,
        workload=first.spec.workload,
        strategy=first.spec.strategy,
        workers=first.spec.workers,
        settings=len(table.logs),
        turns=table.turns,
        noise=table.noise,
        measured=time.strftime("%Y-%m-%d"),
    )


def notes_file() -> Path:
    """Where the noise of machines is noted: `paceline/noise.json` in the user's folder for state."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "paceline" / "noise.json"


def remember(noise: MachineNoise) -> None:
    """Note the noise for later studies; it replaces what was noted for the same settings."""
    same = (noise.host, noise.workload, noise.strategy, noise.workers)
    others = [n for n in _noted() if (n.host, n.workload, n.strategy, n.workers) != same]
    file = notes_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps([asdict(one) for one in (*others, noise)[-_MOST_KEPT:]], indent=2))


def recall(host: str, workers: int, workload: str) -> MachineNoise | None:
    """The latest noise noted for this host and number of workers, preferably of the same workload."""
    alike = [noise for noise in _noted() if (noise.host, noise.workers) == (host, workers)]
    own = [noise for noise in alike if noise.workload.partition(":")[0] == workload.partition(":")[0]]
    return next(reversed(own or alike), None)


def _noted() -> list[MachineNoise]:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(notes_file().read_bytes(), type=list[MachineNoise])
    return []


def cannot_show(grid: Grid, host: str) -> Iterator[str]:
    """What a study will not be able to show on this machine, as far as its noise is noted."""
    counts: dict[tuple[int, str], int] = {}
    for cell in grid.cells:
        if cell.spec is not None and not cell.added:
            kind = (cell.spec.workers, cell.spec.workload)
            counts[kind] = counts.get(kind, 0) + 1
    for (workers, workload), settings in counts.items():
        noise = recall(host, workers, workload)
        if noise is None or settings < FAMILIES[0]:
            continue
        turns = grid.study.repeats
        source = f"`paceline noise`, {noise.workload}, {count(noise.turns, 'turn')}, {noise.measured}"
        known = f"Runs of {count(workers, 'worker')} vary by {percent(noise.noise)} here ({source})"
        if turns < FAMILIES[0]:
            yield f"{known}: one turn shows no difference between settings. Take more (--repeats)."
            continue
        least = percent(smallest_difference(noise.noise, settings=settings, turns=turns))
        yield f"{known}: with {turns} turns, a difference below {least} among {settings} settings cannot be shown."

"""Divide the wall time of a run into timed training and everything else."""

from collections.abc import Mapping

import numpy as np

from paceline.breakdown.setting import MeasuredSetting
from paceline.measure.runs import StoredRun

PARTS = ("timed", "warm_up", "start_up", "validation", "checkpoints")


def wall_seconds(setting: MeasuredSetting) -> Mapping[str, float]:
    """Seconds of each part, mean over the repeats; `timed` is training without its warm-up."""
    rows = [_wall(run) for run in setting.runs]
    return {name: sum(row[name] for row in rows) / len(rows) for name in PARTS}


def _wall(run: StoredRun) -> dict[str, float]:
    walls = run.record.wall_seconds
    warm_up = min(_warm_up(run), walls.training)
    pauses = {"start_up": walls.start_up, "validation": walls.validation, "checkpoints": walls.checkpoints}
    return {"timed": walls.training - warm_up, "warm_up": warm_up, **pauses}


def _warm_up(run: StoredRun) -> float:
    """Seconds of warm-up as measured; without series, its steps are assumed to be like the others."""
    if run.series is None:
        return run.record.warmup_steps * run.record.step_seconds
    first = slice(0, run.record.warmup_steps)
    return max(float(np.sum(worker.end[first] - worker.begin[first])) for worker in run.series)

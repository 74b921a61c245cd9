"""Studies made from descriptions: folders as `paceline study` leaves them, records and series fitting together."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from explain.situations import USUAL, Situation, alone, write

from paceline.record import FILE_NAME, SIDECAR_NAME

STEPS = 60
BATCH = 8
WORKLOAD = {
    "name": "vae",
    "unit": "images",
    "parameters": 3_410_058,
    "gradient_bytes": 13_640_232,
    "data": {"source": "generated digits", "generated": True},
}


def learning(workers: int, *, lr: float = 0.01, worse: float = 0.0) -> dict[str, Any]:
    """Losses that fall, and a validation at the end."""
    losses = [float(loss) for loss in 1.0 + worse + 4.0 * np.exp(-np.arange(STEPS) / 12)]
    seen = STEPS * BATCH * workers
    check = {"epoch": 1.0, "step": STEPS, "samples": seen, "loss": losses[-1] + 0.1, "metrics": {}}
    return {
        "loss": losses,
        "validation": [check],
        "val_loss": check["loss"],
        "updates": STEPS,
        "samples_seen": seen,
        "global_batch": BATCH * workers,
        "lr": lr,
        "lr_rule": "none",
        "reduction": "mean",
    }


def baseline(turn: int = 0, **spec: Any) -> Situation:
    """One worker alone."""
    return alone(spec={"turn": turn, **spec}, record={"learning": learning(1), "workload": WORKLOAD}, seed=turn)


def together(workers: int = 2, turn: int = 0, *, strategy: str = "allreduce", **changes: Any) -> Situation:
    """Workers that exchange, the last of them slow."""
    spec = {"strategy": strategy, "turn": turn, **changes.pop("spec", {})}
    usual = {
        "phases": {**USUAL, "forward": 0.034},
        "longer": {workers - 1: {"input": 0.012}},
        "buckets": (4_000_000, 1_000_000),
        "bandwidth": 4e8,
        "noise": 0.001,
    }
    record = {"learning": learning(workers, worse=0.2), "workload": WORKLOAD, **changes.pop("record", {})}
    return Situation(workers=workers, spec=spec, seed=turn, record=record, **{**usual, **changes})


def usual() -> list[Situation]:
    """Two strategies on two workers, two repeats each."""
    return [
        *(baseline(turn) for turn in range(2)),
        *(together(2, turn) for turn in range(2)),
        *(together(2, turn, strategy="ps", buckets=()) for turn in range(2)),
    ]


def study(folder: Path, situations: Sequence[Situation], *, name: str = "made", series: bool = True) -> Path:
    """A study's folder with a run for each."""
    for number, situation in enumerate(situations):
        write(folder / "runs" / f"run{number}", situation, series=series)
    describe(folder, name=name, runs=len(situations))
    return folder


def describe(folder: Path, *, name: str, runs: int, scaling: str = "weak", **more: Any) -> None:
    """study.json, as far as the report reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    cells: dict[str, Any] = {f"cell{number}": {} for number in range(runs)}
    content = {"name": name, "scaling": scaling, "repeats": 1, "columns": [], "cells": cells, **more}
    (folder / "study.json").write_text(json.dumps(content))


def changed(folder: Path, **changes: Any) -> None:
    """Rewrite parts of a run's record; a mapping replaces only the keys it has."""
    file = folder / FILE_NAME
    content = json.loads(file.read_text())
    for name, value in changes.items():
        content[name] = {**content[name], **value} if isinstance(value, Mapping) else value
    file.write_text(json.dumps(content))


def large(folder: Path, settings: int, repeats: int = 2) -> Path:
    """A study of many runs: one of each size is simulated, and the others are as it was with other settings."""
    sizes = (1, 2, 4, 8)
    contents = {}
    for workers in sizes:
        seen = write(folder / "seen" / str(workers), together(workers, longer={}))
        contents[workers] = json.loads((seen / FILE_NAME).read_text())
    for number in range(settings):
        workers, curve = sizes[number % len(sizes)], number // len(sizes)
        strategy = f"allreduce:bucket={1 + curve // 10}MB"
        spec = {**contents[workers]["spec"], "strategy": strategy, "lr": 0.001 * (1 + curve % 10)}
        for turn in range(repeats):
            run = folder / "runs" / f"run{number}-turn{turn}"
            run.mkdir(parents=True)
            (run / FILE_NAME).write_text(json.dumps({**contents[workers], "spec": {**spec, "turn": turn}}))
            os.link(folder / "seen" / str(workers) / SIDECAR_NAME, run / SIDECAR_NAME)
    for turn in range(repeats):
        write(folder / "runs" / f"baseline-turn{turn}", baseline(turn))
    describe(folder, name="large", runs=(settings + 1) * repeats)
    return folder

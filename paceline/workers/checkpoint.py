"""Checkpoints: complete or absent, loaded without executing code, refused when they belong to another run."""

import dataclasses
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from paceline.errors import CheckpointError
from paceline.migrations import migrated_settings
from paceline.settings import Role, SettingValue
from paceline.spec import SETTINGS, RunSpec
from paceline.strategies.base import Replica, State
from paceline.strategies.group import Group

_KEPT = 2


@dataclass(frozen=True, kw_only=True)
class CheckpointAbout:
    """What a checkpoint reports about itself, in `about.json`."""

    identity: Mapping[str, SettingValue]
    """The settings that a run must share to resume from it."""

    step: int


@dataclass
class Progress:
    """How far a run has come; a resumed run continues from here."""

    step: int = 0
    samples_seen: int = 0
    """Samples that this worker has seen."""


def save(folder: Path, spec: RunSpec, progress: Progress, replica: Replica, group: Group) -> Path:
    """Write a checkpoint that gets its name only when it is complete. All workers call this together."""
    step = int(group.all_gather(torch.tensor([progress.step]))[0])  # without a barrier in every step they may differ
    final = folder / f"step-{step:08d}"
    partial = folder / f".{final.name}.partial"
    if group.rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    group.barrier()
    state = replica.state()
    own = {"state": state.own, "random": torch.get_rng_state(), "progress": dataclasses.asdict(progress)}
    if torch.cuda.is_available():
        own["cuda_random"] = torch.cuda.get_rng_state()
    _write(own, partial / f"rank-{group.rank}.pt")
    if group.rank == 0:
        _write(state.shared, partial / "shared.pt")
        about = CheckpointAbout(identity=spec.by_role(Role.CHECKPOINT), step=step)
        (partial / "about.json").write_text(json.dumps(dataclasses.asdict(about), indent=2))
    group.barrier()
    if group.rank == 0:
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        for old in checkpoints(folder)[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)
    group.barrier()
    return final


def load(path: Path, spec: RunSpec, replica: Replica, group: Group) -> Progress:
    """Restore the replica and the worker's random state from a checkpoint."""
    check(path, spec)
    try:
        own = torch.load(path / f"rank-{group.rank}.pt", weights_only=True)
        shared = torch.load(path / "shared.pt", weights_only=True)
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read ({error}): resume from another checkpoint.") from error
    progress = own.get("progress")
    if not isinstance(progress, dict) or not all(isinstance(v, int) for v in progress.values()):
        raise CheckpointError(f"{path} does not contain its progress: resume from another checkpoint.")
    replica.load(State(shared=shared, own=own["state"]))
    torch.set_rng_state(own["random"])
    if "cuda_random" in own:
        torch.cuda.set_rng_state(own["cuda_random"])
    group.barrier()
    return Progress(**progress)


def find(path: Path) -> Path:
    """The checkpoint that `--resume` names: the path itself, or the newest one in a run folder."""
    if (path / "about.json").is_file():
        return path
    whole = checkpoints(path / "checkpoints") or checkpoints(path)
    if not whole:
        raise CheckpointError(f"{path} holds no checkpoint: train with --checkpoint-every to save some.")
    return whole[-1]


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, oldest first."""
    return sorted(p.parent for p in folder.glob("step-*/about.json"))


def check(path: Path, spec: RunSpec) -> CheckpointAbout:
    """What the checkpoint reports about itself; refused if it belongs to a run that differs from `spec`."""
    try:
        about = msgspec.json.decode((path / "about.json").read_bytes(), type=CheckpointAbout)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not a readable checkpoint ({error}): resume from another checkpoint."
        ) from error
    now = spec.by_role(Role.CHECKPOINT)
    # A setting that came later had its default when the checkpoint was written, where one default fits all workloads.
    later = {name: SETTINGS[name].default for name in now if SETTINGS[name].default not in (None, dataclasses.MISSING)}
    identity = {**later, **migrated_settings(about.identity)}
    if absent := [name for name in now if name not in identity]:
        raise CheckpointError(f"{path} does not contain {', '.join(absent)}: resume from another checkpoint.")
    differing = [name for name, value in now.items() if identity[name] != value]
    if differing:
        details = ", ".join(f"{name} was {identity[name]!r}, now {now[name]!r}" for name in differing)
        raise CheckpointError(f"{path} belongs to another run ({details}): give the same settings to resume it.")
    return about


def _write(content: Mapping[str, Any], path: Path) -> None:
    torch.save(dict(content), path)
    with path.open("rb") as written:
        os.fsync(written.fileno())

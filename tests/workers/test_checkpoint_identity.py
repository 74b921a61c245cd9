"""A checkpoint is resumed only by a run that would have written it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from paceline.errors import CheckpointError
from paceline.settings import Role
from paceline.spec import RunSpec, with_role
from paceline.workers import checkpoint

SPEC = RunSpec(workload="vae", workers=2, batch=8, lr=0.1, optimizer="own", steps=4)
OTHERS: dict[str, Any] = {
    "workload": "pilotnet",
    "workers": 4,
    "strategy": "ps",
    "batch": 16,
    "feed": "synthetic",
    "lr": 0.2,
    "lr_rule": "linear",
    "optimizer": "sgd",
    "clip_norm": 1.0,
    "accumulate": 2,
    "precision": "bf16",
    "seed": 1,
}


def written(folder: Path, **changes: Any) -> Path:
    identity = {**SPEC.by_role(Role.CHECKPOINT), **changes}
    (folder / "about.json").write_text(json.dumps({"identity": identity, "step": 2}))
    return folder


@pytest.mark.parametrize("name", with_role(Role.CHECKPOINT))
def test_a_run_that_differs_in_what_it_computes_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = written(tmp_path)
    checkpoint.check(path, SPEC)
    if name == "lr_warmup":  # needs a rule, which is refused first
        return
    other = dataclasses.replace(SPEC, **{name: OTHERS[name]})
    with pytest.raises(CheckpointError, match=rf"belongs to another run .*{name} was .*now {OTHERS[name]!r}"):
        checkpoint.check(path, other)


def test_a_checkpoint_that_does_not_say_its_optimizer_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    about = json.loads((path / "about.json").read_text())
    del about["identity"]["optimizer"]
    (path / "about.json").write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="does not contain optimizer"):
        checkpoint.check(path, SPEC)


def test_a_checkpoint_from_before_a_setting_existed_had_its_default(tmp_path: Path) -> None:
    path = written(tmp_path)
    about = json.loads((path / "about.json").read_text())
    del about["identity"]["accumulate"]
    (path / "about.json").write_text(json.dumps(about))
    checkpoint.check(path, SPEC)
    with pytest.raises(CheckpointError, match="accumulate was 1, now 2"):
        checkpoint.check(path, dataclasses.replace(SPEC, accumulate=2))


def test_a_strategy_of_an_older_spelling_is_the_same_strategy(tmp_path: Path) -> None:
    path = written(tmp_path, strategy="allreduce:wire=bf16")
    checkpoint.check(path, dataclasses.replace(SPEC, strategy="bf16+allreduce"))


def test_how_long_and_where_a_run_trains_may_change(tmp_path: Path) -> None:
    path = written(tmp_path)
    checkpoint.check(path, dataclasses.replace(SPEC, steps=100, timeout=5.0, cores_per_device=2, validate="off"))

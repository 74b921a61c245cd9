"""Profiles: of one worker alone, whole, never overwritten, and refused when they cannot be trusted."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan
from paceline.errors import DataError, OutputError
from paceline.measure import sidecar
from paceline.measure.profile import Profile
from paceline.record import Record
from paceline.spec import RunSpec


def measured(folder: Path, *, strategy: str = "independent", steps: int = 24) -> Record:
    spec = RunSpec(workload="slowed:slowed", strategy=strategy, steps=steps, validate="off")
    return LocalEngine().run(plan(spec), folder, NoDisplay())


def test_a_profile_says_how_long_a_step_takes_and_when_gradients_are_ready(tmp_path: Path) -> None:
    record = measured(tmp_path)
    (worker,) = sidecar.load(tmp_path)
    profile = Profile.of(record, worker)
    parts = [getattr(profile, f"{n}_seconds") for n in ("input", "forward", "backward", "update", "other")]
    assert sum(parts) == pytest.approx(record.step_seconds, rel=0.01)
    assert profile.forward_seconds >= 0.03
    assert (profile.batch, profile.units_per_step) == (4, 4)
    assert [g.name for g in profile.gradients] == ["weight", "bias"]
    assert sum(g.bytes for g in profile.gradients) == profile.workload.gradient_bytes == 8
    assert all(0 < g.ready_seconds <= np.max(worker.backward) for g in profile.gradients)

    path = tmp_path / "profile.json"
    profile.save(path)
    assert Profile.load(path) == profile
    with pytest.raises(OutputError, match=r"profile.json exists"):
        profile.save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["profile.json", "record.json", "series.npz"]


def test_too_few_steps_or_an_exchange_make_no_profile(tmp_path: Path) -> None:
    short = measured(tmp_path / "short", steps=3)
    (series,) = sidecar.load(tmp_path / "short")
    with pytest.raises(DataError, match="Too few steps"):
        Profile.of(short, series)
    with pytest.raises(DataError, match="one worker alone"):
        Profile.of(dataclasses.replace(short, spec=dataclasses.replace(short.spec, strategy="allreduce")), series)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nonsense", "is not a readable profile"),
        ("[1]", "is not a profile: make one with"),
        ('{"schema_version": 1, "spec": {}}', "is not a profile: make one with"),
        ('{"schema_version": 9, "compute_spread": 0}', "has schema version 9"),
        ('{"schema_version": 1, "compute_spread": 0}', "is not a complete profile"),
    ],
)
def test_what_is_no_profile_is_refused(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        Profile.load(path)


def test_nothing_is_left_where_a_profile_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps(1))
    record = measured(tmp_path / "run")
    profile = Profile.of(record, sidecar.load(tmp_path / "run")[0])
    with pytest.raises(OutputError, match="cannot be written"):
        profile.save(tmp_path / "file" / "profile.json")

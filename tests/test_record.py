"""Records: whole or absent, never overwritten, and refused when they cannot be trusted."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from complete import record_of

from paceline.errors import DataError, OutputError
from paceline.migrations import SCHEMA_VERSION, migrated_strategy
from paceline.record import FILE_NAME, Record

PARTS = {"input": 0.05, "forward": 0.1, "backward": 0.1, "wait": 0.0, "exchange": 0.0, "update": 0.0, "other": 0.0}
STEP: dict[str, Any] = {"device": "cpu:0", "seconds": 1.5, "step_seconds": 0.25, "phases": PARTS}


def record(**changes: Any) -> Record:
    content: dict[str, Any] = {
        "spec": {"workload": "vae", "workers": 2, "steps": 7},
        "devices": 2,
        "units_timed": 96,
        "steps_timed": 6,
        "warmup_steps": 1,
        "throughput": {"value": 64.0},
        "per_worker": [{"rank": 0, "samples": 50, **STEP}, {"rank": 1, "samples": 46, **STEP}],
        "learning": {"loss": [1.0, None, 0.5], "updates": 7, "samples_seen": 112, "global_batch": 16},
        "traffic": {"claimed": {"ring": 10}, "sent_bytes_per_worker_and_step": 10},
    }
    return record_of({**content, **changes})


def content_of(record: Record) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(record.to_json())
    return content


def test_a_record_is_read_back_from_its_file_or_its_folder(tmp_path: Path) -> None:
    written = record(warnings=["uneven"], failures=["stopped"])
    path = written.save(tmp_path)
    assert path == tmp_path / FILE_NAME
    assert Record.load(tmp_path) == Record.load(path) == written
    assert [p.name for p in tmp_path.iterdir()] == [FILE_NAME]
    assert json.loads(path.read_text())["schema_version"] == SCHEMA_VERSION


def test_a_record_is_never_overwritten(tmp_path: Path) -> None:
    path = record().save(tmp_path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"record.json exists: choose another --out"):
        record(warnings=["later"]).save(tmp_path)
    assert path.read_bytes() == before


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().samples_timed = 1  # type: ignore[misc]


def test_phases_that_do_not_add_up_to_the_step_cannot_become_a_record() -> None:
    near, far = ([{"rank": n, "samples": 48, **STEP, "step_seconds": s} for n in range(2)] for s in (0.252, 0.26))
    record(per_worker=near)
    with pytest.raises(ValueError, match=r"the phases of worker 0 add up to 0\.25 s, but its step takes 0\.26 s"):
        record(per_worker=far)


def test_samples_that_do_not_add_up_cannot_become_a_record() -> None:
    with pytest.raises(ValueError, match="its workers count 96 samples, but samples_timed is 95"):
        record(samples_timed=95)


def test_a_step_is_the_sum_of_its_phases() -> None:
    assert record().step_seconds == pytest.approx(0.25)


def test_a_record_of_a_newer_paceline_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({**content_of(record()), "schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(DataError, match=rf"schema version {SCHEMA_VERSION + 1}; .* up to {SCHEMA_VERSION}: update it"):
        Record.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1', "\x00", "not json"])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(DataError, match=r"record.json is not a readable record"):
        Record.load(tmp_path)


def test_a_record_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a readable record"):
        Record.load(tmp_path / "nowhere")
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not a readable record"):
        Record.load(tmp_path)


@pytest.mark.parametrize("content", [[], 3, "text", None, {}, {"schema_version": "1"}, {"spec": {}}])
def test_what_is_not_a_record_is_refused_as_such(tmp_path: Path, content: Any) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(DataError, match="is not a record: it has no schema_version"):
        Record.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"samples_timed": 95},
        {"per_worker": [{"rank": 0}]},
        {"per_worker": None},
        {"per_worker": ["one"]},
    ],
)
def test_a_record_with_a_field_missing_or_wrong_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    content = {**content_of(record()), **change}
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(DataError, match="is not a complete record"):
        Record.load(tmp_path)
    content = content_of(record())
    del content["phases"]
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"is not a complete record.*phases"):
        Record.load(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: c["per_worker"][0].update(phases=[1]),
        lambda c: c["throughput"].update(value=None),
        lambda c: c["throughput"].update(value=0),
        lambda c: c["per_worker"][0].update(seconds="long"),
        lambda c: c.update(learning={}),
        lambda c: c.update(spec=[]),
        lambda c: c.update(per_worker=[]),
        lambda c: c.update(per_worker=[3], samples_timed=0),
        lambda c: c.update(phases=dict.fromkeys(PARTS, 0)),
        lambda c: c["spec"].update(workers=3),
        lambda c: c["spec"].update(workers="two"),
        lambda c: c["spec"].update(steps=None),
        lambda c: c["throughput"].update(low=70, high=80),
        lambda c: c["per_worker"][1].update(rank=0),
        lambda c: c["phases"].update(forward=0.2),
    ],
)
def test_a_record_that_was_edited_into_nonsense_is_refused(damage: Any, tmp_path: Path) -> None:
    path = record().save(tmp_path)
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="is not a complete record"):
        Record.load(path)


def test_a_file_nested_beyond_reason_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("[" * 200_000)
    with pytest.raises(DataError, match="is not a readable record"):
        Record.load(tmp_path)


def test_a_rate_that_contradicts_samples_and_seconds_is_said_on_reading(tmp_path: Path) -> None:
    path = record().save(tmp_path)
    assert Record.load(path).warnings == ()
    content = json.loads(path.read_text())
    content["throughput"]["value"] = 200.0
    path.write_text(json.dumps(content))
    (said,) = Record.load(path).warnings
    assert said.startswith("The throughput of 200 images/s contradicts samples ÷ seconds (64)")


def test_a_record_of_schema_1_is_migrated_when_it_is_read(tmp_path: Path) -> None:
    content = content_of(record(spec={"workload": "vae", "workers": 2, "strategy": "allreduce"}))
    content["spec"]["strategy"] = "allreduce:bucket=1MB,wire=bf16"
    content["schema_version"] = 1
    for name in ("units_timed", "network", "emulation"):
        del content[name]
    del content["per_worker"][0]["queued_seconds_per_step"]
    (tmp_path / FILE_NAME).write_text(json.dumps(content))
    migrated = Record.load(tmp_path)
    assert migrated.spec.strategy == "bf16+allreduce:bucket=1MB"
    assert (migrated.schema_version, migrated.units_timed) == (SCHEMA_VERSION, 96)
    assert migrated.per_worker[0].queued_seconds_per_step is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("allreduce", "allreduce"),
        ("allreduce:wire=bf16", "bf16+allreduce"),
        ("allreduce:wire=fp16,reduce=sum", "fp16+allreduce:reduce=sum"),
        ("allreduce:packs=2,wire=bf16", "bf16+allreduce:packs=2"),
        ("allreduce:packs=2,wire=fp32,reduce=sum", "allreduce:packs=2,reduce=sum"),
        ("ps:mode=async", "ps:mode=async"),
        ("bf16+allreduce:packs=2", "bf16+allreduce:packs=2"),
    ],
)
def test_the_strategies_of_schema_1_are_respelled(old: str, new: str) -> None:
    assert migrated_strategy(old) == new

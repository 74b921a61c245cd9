"""Our own records under the same audit."""

from pathlib import Path
from typing import Any

import pytest
from explain.situations import USUAL, Situation, alone, write

from paceline.record import Record
from paceline.references.audit import audit
from paceline.references.records import from_records


def record(folder: Path, situation: Situation) -> Record:
    return Record.load(write(folder, situation, series=False))


def findings(tmp_path: Path, *situations: Situation) -> set[tuple[str, str]]:
    records = [record(tmp_path / str(index), situation) for index, situation in enumerate(situations)]
    return {(finding.check, finding.severity) for finding in audit(from_records("ours", records))}


def slower(**changes: Any) -> Situation:
    return Situation(phases={**USUAL, "exchange": 0.020}, **changes)


def test_a_sound_study_has_no_fault_and_keeps_its_remarks(tmp_path: Path) -> None:
    found = findings(tmp_path, alone(), slower())
    assert {severity for _, severity in found} <= {"note"}
    assert ("remark", "note") in found, "one turn only is said"


def test_speedup_and_efficiency_are_those_of_the_study(tmp_path: Path) -> None:
    records = [record(tmp_path / "one", alone()), record(tmp_path / "two", slower())]
    series = from_records("ours", records).series[-1]
    ratio = records[1].throughput.value / records[0].throughput.value
    assert series.strategy == "allreduce"
    assert series.speedup(series.rows[-1]) == pytest.approx(ratio)
    assert series.efficiency(series.rows[-1]) == pytest.approx(ratio / 2)


def test_runs_that_differ_in_what_a_step_does_are_different_series(tmp_path: Path) -> None:
    situations = [slower(spec=spec) for spec in ({}, {"optimizer": "own"}, {"precision": "bf16"}, {"accumulate": 4})]
    records = [record(tmp_path / str(index), situation) for index, situation in enumerate(situations)]
    labels = [series.label for series in from_records("ours", records).series]
    usual = "vae allreduce dataset"
    assert labels == [usual, f"{usual} bf16", f"{usual} accumulate 4"], "leaving the optimizer open means its own"


def test_an_impossible_efficiency_of_ours_is_a_fault(tmp_path: Path) -> None:
    quick = Situation(phases={name: seconds / 2 for name, seconds in USUAL.items()})
    assert ("possible", "fault") in findings(tmp_path, alone(), quick)


def test_timing_from_the_first_step_on_is_a_fault(tmp_path: Path) -> None:
    first = {"timing": "fixed:warmup=0,steps=60", "steps": None}
    assert ("window", "fault") in findings(tmp_path, alone(spec=first), slower(spec=first))


def test_a_run_of_another_machine_has_no_speedup(tmp_path: Path) -> None:
    there = slower(environment={"host": "there"})
    records = [record(tmp_path / "one", alone()), record(tmp_path / "two", there)]
    table = from_records("ours", records)
    series = table.series[-1]
    assert series.speedup(series.rows[-1]) is None
    assert any("host differs" in finding.sentence for finding in audit(table))


def test_a_loss_that_rises_with_fewer_updates_is_explained(tmp_path: Path) -> None:
    def learned(loss: float, updates: int) -> dict[str, Any]:
        validation = [{"epoch": 4, "samples": 100, "loss": loss, "metrics": {}}]
        known = {"loss": [1.0], "global_batch": 8, "lr": 0.1, "lr_rule": "none", "reduction": "mean"}
        seen = {"validation": validation, "val_loss": loss, "updates": updates, "samples_seen": 8 * updates}
        return {"learning": {**known, **seen}}

    one, two = alone(record=learned(1.0, 100)), slower(record=learned(1.5, 50))
    assert ("loss", "note") in findings(tmp_path, one, two)

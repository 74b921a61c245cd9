"""The gap to ideal: its components add up to it, in every situation."""

import math
from pathlib import Path
from typing import Any

import pytest
from explain.situations import ALONE, USUAL, Situation, alone, write

from paceline.errors import DataError, SpecError
from paceline.explain.data import as_data
from paceline.explain.verdict import Account, account
from paceline.measure.runs import find
from paceline.numbers import whole_percents

SERVER = [{"server": 0, "device": "cpu:9", "cores": [9], "place": "own", "utilisation_percent": 50.0}]
SETTINGS: dict[str, Situation] = {
    "allreduce": Situation(noise=0.01),
    "slower": Situation(phases={name: 1.3 * seconds for name, seconds in USUAL.items()}),
    "a phase faster than ideal": Situation(phases={**USUAL, "forward": 0.020, "exchange": 0.050}),
    "servers on devices of their own": Situation(
        devices=3, servers=SERVER, spec={"strategy": "ps:servers=1,place=own"}, noise=0.003
    ),
    "two workers on a device": Situation(
        spec={"workers_per_device": 2}, phases={name: 2 * seconds for name, seconds in USUAL.items()}
    ),
    "without a barrier": Situation(spec={"strategy": "ps:mode=async"}, longer={1: {"backward": 0.04}}, devices=3),
}


def study(folder: Path, *situations: Situation) -> Account:
    return account(find([write(folder / str(number), s) for number, s in enumerate(situations)]))


@pytest.mark.parametrize("name", SETTINGS)
def test_components_add_up_to_the_gap_and_shares_to_100_percent(tmp_path: Path, name: str) -> None:
    _, explanation = study(tmp_path, alone(), SETTINGS[name]).explanations
    gap = explanation.gap
    assert gap is not None
    assert math.fsum(gap.components.values()) == pytest.approx(gap.step_seconds - gap.ideal_seconds, abs=1e-12)
    assert gap.step_seconds == pytest.approx(explanation.case.setting.step_seconds)
    assert sum(gap.shares_percent.values()) == 100
    assert explanation.efficiency is not None
    assert gap.efficiency == pytest.approx(explanation.efficiency.value, rel=1e-6), "the efficiency of the tables"


def test_each_component_is_the_phase_beyond_the_scaled_baselines(tmp_path: Path) -> None:
    _, explanation = study(tmp_path, alone(), Situation(phases={**USUAL, "update": 0.010})).explanations
    assert explanation.gap is not None
    expected = {"exchange": 0.004, "update": 0.007}
    for name, seconds in explanation.gap.components.items():
        assert seconds == pytest.approx(expected.get(name, 0.0), abs=1e-9), name


def test_two_workers_on_a_device_are_compared_with_two_steps_of_one(tmp_path: Path) -> None:
    _, explanation = study(tmp_path, alone(), SETTINGS["two workers on a device"]).explanations
    assert explanation.gap is not None
    assert explanation.gap.worker_scale == pytest.approx(2)
    assert explanation.gap.components["compute"] == pytest.approx(0, abs=1e-9)
    assert explanation.gap.seconds == pytest.approx(2 * USUAL["exchange"])


def test_strong_scaling_is_compared_with_the_global_batch_of_one_worker(tmp_path: Path) -> None:
    half = {name: seconds / 2 for name, seconds in ALONE.items()}
    split = Situation(phases={**half, "exchange": 0.006, "update": ALONE["update"]}, samples=4)
    _, explanation = study(tmp_path, alone(), split).explanations
    assert explanation.gap is not None
    assert explanation.gap.worker_scale == pytest.approx(0.5)
    assert explanation.gap.components["exchange"] == pytest.approx(0.006)
    assert explanation.gap.components["update"] == pytest.approx(ALONE["update"] / 2), "an update is not divided"


def test_repeats_are_averaged(tmp_path: Path) -> None:
    turns = [{"turn": turn} for turn in range(3)]
    runs = [alone(spec=spec) for spec in turns]
    runs += [Situation(phases={**USUAL, "exchange": e}, spec=s) for e, s in zip((0.02, 0.03, 0.04), turns, strict=True)]
    _, explanation = study(tmp_path, *runs).explanations
    assert len(explanation.case.setting.runs) == 3
    assert explanation.gap is not None
    assert explanation.gap.components["exchange"] == pytest.approx(0.03)


def test_a_gap_that_is_lost_in_the_repeats_is_not_divided(tmp_path: Path) -> None:
    turns = [{"turn": turn} for turn in range(3)]
    runs = [alone(spec=spec) for spec in turns]
    runs += [
        Situation(phases={**ALONE, "backward": b}, spec={**s, "strategy": "independent"})
        for b, s in zip((0.050, 0.060, 0.071), turns, strict=True)
    ]
    explained = study(tmp_path, *runs)
    explanation = explained.explanations[1]
    assert (explanation.gap, explanation.leading, explanation.further) == (None, None, ())
    assert "no breakdown given: the gap is within noise" in explanation.verdict
    assert explained.verdict == "1 setting compared; none has a gap to ideal beyond noise."
    assert as_data(explained)["settings"][1]["gap"]["shares_percent"] is None


def test_faster_than_ideal_is_no_gap(tmp_path: Path) -> None:
    _, explanation = study(tmp_path, alone(), Situation(phases={**ALONE, "forward": 0.020})).explanations
    assert explanation.gap is None
    assert "no breakdown given: the gap is within noise" in explanation.verdict


def test_causes_of_a_setting_together_explain_its_gap(tmp_path: Path) -> None:
    situation = Situation(workers=4, longer={2: {"backward": 0.03}}, phases={**USUAL, "input": 0.02, "exchange": 0.01})
    _, explanation = study(tmp_path, alone(), situation).explanations
    assert explanation.gap is not None
    assert sum(cause.seconds for cause in explanation.causes) == pytest.approx(explanation.gap.seconds, rel=0.01)


def test_the_studys_verdict_names_the_component_and_the_setting_farthest_from_ideal(tmp_path: Path) -> None:
    far = Situation(phases={**USUAL, "exchange": 0.09}, spec={"strategy": "allreduce:bucket=1MB"})
    explained = study(tmp_path, alone(), Situation(phases={**USUAL, "exchange": 0.02}), far)
    assert "exposed communication in 2 of 2 settings" in explained.verdict
    assert explained.worst.case.setting.spec.strategy == "allreduce:bucket=1MB"


def test_without_a_baseline_every_setting_is_explained_by_itself(tmp_path: Path) -> None:
    explained = study(tmp_path, Situation(), Situation(workers=4))
    assert [e.case.gap for e in explained.explanations] == [None, None]
    assert any("no one-worker baseline" in note for note in explained.notes)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"environment": {"host": "there"}}, "host: here / there"),
        ({"environment": {"versions": {"torch": "2.12.0"}}}, "torch version: 2.13.0 / 2.12.0"),
    ],
)
def test_records_of_different_machines_are_compared_only_on_request(
    tmp_path: Path, change: dict[str, Any], difference: str
) -> None:
    stored = find([write(tmp_path / "one", alone()), write(tmp_path / "two", Situation(**change))])
    with pytest.raises(SpecError, match=f"{difference}.*--anyway"):
        account(stored)
    explained = account(stored, anyway=True)
    assert explained.explanations[1].gap is not None
    assert any(difference in note for note in explained.notes)


@pytest.mark.parametrize(
    "parts",
    [
        {"a": 1.0, "b": 1.0, "c": 1.0},
        {"a": 5.0, "b": -2.0, "c": 0.0},
        {"a": 1e-6, "b": 7.0, "c": -3.333},
        {"a": 100.0},
        {"a": 0.005, "b": 0.005, "c": 0.99},
    ],
)
def test_whole_percents_add_up_to_100_and_are_nowhere_off_by_a_whole_one(parts: dict[str, float]) -> None:
    whole, total = whole_percents(parts), sum(parts.values())
    assert sum(whole.values()) == 100
    for name, part in parts.items():
        assert abs(whole[name] - 100 * part / total) < 1


def test_a_studys_settings_come_in_order_the_baseline_first(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    for name, workers in (("a", 16), ("b", 2), ("c", 4)):
        write(tmp_path / "runs" / name, Situation(workers=workers, steps=20))
    write(tmp_path / "runs" / "d", alone())
    settings = [e.case.setting.spec.workers for e in account(find([tmp_path])).explanations]
    assert settings == [1, 2, 4, 16]


def test_a_damaged_sidecar_is_told_and_the_record_explained(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", Situation())
    (folder / "series.npz").write_bytes(b"not a sidecar")
    (explanation,) = account(find([folder])).explanations
    assert any("no readable series.npz" in note for note in explanation.notes)


def test_a_study_is_its_records_and_its_failures_are_told(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(DataError, match="without a finished run"):
        find([tmp_path])
    write(tmp_path / "runs" / "one", alone())
    write(tmp_path / "runs" / "two", Situation())
    (tmp_path / "runs" / "three").mkdir()
    (tmp_path / "runs" / "three" / "failure.json").write_text('{"message": "Worker 1 was killed."}')
    found = find([tmp_path, tmp_path / "runs" / "one"])
    assert sorted(run.folder.name for run in found.runs) == ["one", "two"], "each once"
    assert found.notes == ("A run of the study failed and is left out: Worker 1 was killed.",)


def test_strong_scaling_is_taken_from_the_studys_description(tmp_path: Path) -> None:
    halved = alone(samples=4, phases={name: 0.7 * seconds for name, seconds in ALONE.items()})
    for number, situation in enumerate((alone(samples=8), halved, Situation(samples=4))):
        write(tmp_path / "runs" / str(number), situation)
    (tmp_path / "study.json").write_text('{"scaling": "strong"}')
    together = account(find([tmp_path])).explanations[-1]
    assert together.case.baseline is not None
    assert together.case.baseline.spec.batch == 8, "one worker with the batch of both"
    (tmp_path / "study.json").write_text('{"scaling": "weak"}')
    together = account(find([tmp_path])).explanations[-1]
    assert together.case.baseline is not None
    assert together.case.baseline.spec.batch == 4


def test_efficiencies_by_mean_and_by_median_that_differ_are_both_told(tmp_path: Path) -> None:
    uneven = Situation(record={"throughput": {"value": 200.0, "low": 190.0, "high": 210.0, "unit": "images/s"}})
    explained = study(tmp_path, alone(), uneven)
    assert any("by mean steps, which the breakdown uses" in note for note in explained.explanations[-1].notes)


def test_another_runs_sidecar_is_not_believed(tmp_path: Path) -> None:
    four, two = write(tmp_path / "four", Situation(workers=4)), write(tmp_path / "two", Situation())
    (four / "series.npz").write_bytes((two / "series.npz").read_bytes())
    (run,) = find([four]).runs
    assert run.series is None

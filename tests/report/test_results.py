"""What the report is made of: settings, the curves they belong to, and what is missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from report.made import baseline, changed, describe, learning, study, together, usual

from paceline.errors import DataError, SpecError
from paceline.report.charts import SHOWN
from paceline.report.pictures import png, svg
from paceline.report.results import read
from paceline.report.scaling import throughput
from paceline.report.shown import choices, chosen_first, fastest, shown_first


def test_what_varies_beside_the_workers_makes_the_curves(tmp_path: Path) -> None:
    wider = [together(2, spec={"batch": 16, "feed": "synthetic"}), together(4)]
    results = read([study(tmp_path, [*usual(), *wider])])
    assert [d.name for d in results.dimensions] == ["strategy", "batch", "feed"]
    assert results.lines[:2] == ("allreduce · batch 8 · dataset", "allreduce · batch 16 · synthetic")
    by_line = [row.workers for row in results.rows if row.line == results.lines[0]]
    assert by_line == [2, 4]


def test_workers_per_device_that_follow_from_the_workers_make_no_curves(tmp_path: Path) -> None:
    shared = [together(n, spec={"workers_per_device": n // 2}) for n in (2, 4, 8)]
    results = read([study(tmp_path / "follows", [baseline(), *shared])])
    assert results.lines == ("allreduce", "independent")
    chosen = [together(4, spec={"workers_per_device": k}) for k in (1, 2)]
    results = read([study(tmp_path / "chosen", [baseline(), *chosen])])
    assert {"allreduce · 1 per device", "allreduce · 2 per device"} <= set(results.lines)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([{"optimizer": "own"}, {"optimizer": "sgd"}], {"optimizer own", "optimizer sgd"}),
        ([{"clip_norm": 0.5}, {"clip_norm": None}], {"clip norm 0.5", "no clip norm"}),
        ([{"steps": 60}, {"steps": None, "seconds": 5.0}], {"60 steps", "5 s"}),
        ([{"steps": 60}, {"until_percent": 5.0, "steps": 60}], {"60 steps", "within 5 %, 60 steps"}),
        ([{"validate": "off"}, {"validate": "end"}], {"validate off", "validate end"}),
        ([{"nodes": 1}, {"nodes": 2, "network": "1Gbps"}], {"one node", "1Gbps"}),
        ([{"checkpoint_every": 10}, {"checkpoint_every": 20}], {"checkpoint every 10", "checkpoint every 20"}),
    ],
    ids=["optimizers", "clip norms", "lengths", "limits", "validation", "networks", "checkpoints"],
)
def test_settings_with_as_many_workers_never_share_a_name(
    tmp_path: Path, settings: list[dict[str, Any]], names: set[str]
) -> None:
    results = read([study(tmp_path, [together(n, spec=one) for one in settings for n in (2, 4)])])
    assert set(results.lines) == names
    assert len({row.label for row in results.rows}) == len(results.rows) == 4


def test_lengths_that_follow_from_the_workers_make_no_curves(tmp_path: Path) -> None:
    equal_samples = [together(n, spec={"steps": 240 // n}) for n in (2, 4)]
    assert read([study(tmp_path, [baseline(steps=240), *equal_samples])]).lines == ("allreduce", "independent")


def test_an_optimizer_that_goes_with_a_workload_makes_no_curves(tmp_path: Path) -> None:
    each = [together(spec={"workload": name, "optimizer": how}) for name, how in (("vae", "own"), ("other", "sgd"))]
    assert read([study(tmp_path, each)]).lines == ("other", "vae")


def test_what_a_study_calls_its_variants_names_the_curves(tmp_path: Path) -> None:
    folder = study(tmp_path, usual())
    for number in range(6):
        (folder / "runs" / f"run{number}").rename(folder / "runs" / f"cell{number // 2}-turn{number % 2}")
    labels = {"cell0": "one alone", "cell1": "the new way", "cell2": "the old way"}
    describe(folder, name="named", runs=6, labels=labels)
    assert set(read([folder]).lines) == set(labels.values())
    describe(folder, name="named", runs=6, labels={"cell0": "one alone"})  # not all are named
    assert set(read([folder]).lines) == {"independent", "allreduce", "ps"}


def test_options_that_all_workloads_of_a_name_share_are_not_repeated(tmp_path: Path) -> None:
    names = ["vae:cell=fused,units=32", "vae:units=32", "other:image=8"]
    results = read([study(tmp_path, [together(spec={"workload": name}) for name in names])])
    assert results.lines == ("other", "vae:cell=fused", "vae")


def test_batch_and_rate_that_go_with_a_workload_make_no_curves(tmp_path: Path) -> None:
    each = [together(spec={"workload": name, "batch": batch}) for name, batch in (("vae", 8), ("other", 16))]
    assert read([study(tmp_path / "follows", each)]).lines == ("other", "vae")
    free = [*each, together(spec={"workload": "vae", "batch": 4})]
    assert "vae · batch 4" in read([study(tmp_path / "free", free)]).lines


def test_strong_scaling_is_one_curve_although_every_worker_has_another_batch(tmp_path: Path) -> None:
    divided = [together(n, samples=8 // n, spec={"batch": 8 // n}) for n in (2, 4)]
    folder = study(tmp_path, [baseline(), *divided])
    describe(folder, name="divided", runs=3, scaling="strong")
    results = read([folder])
    assert results.lines == ("allreduce", "independent")
    assert [row.scaling.scaling for row in results.rows] == ["strong", "strong", None]


def test_equal_settings_of_two_studies_are_two_curves(tmp_path: Path) -> None:
    folders = [study(tmp_path / name, usual(), name="same") for name in ("monday", "tuesday")]
    results = read(folders)
    assert results.title == "same and same (2)"
    assert len(results.rows) == 6
    assert all(len(row.runs) == 2 for row in results.rows)
    assert {row.values["study"] for row in results.rows} == {"same", "same (2)"}


def test_single_runs_are_shown_together(tmp_path: Path) -> None:
    folder = study(tmp_path, usual())
    results = read(sorted((folder / "runs").iterdir()))
    assert results.title == "6 runs"
    assert len(results.rows) == 3


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    folder = study(tmp_path, usual(), series=False)
    describe(folder, name="made", runs=9, cells={**{f"c{i}": {} for i in range(9)}, "no": {"impossible": "too many"}})
    failed = folder / "failed" / "one"
    failed.mkdir(parents=True)
    (failed / "failure.json").write_text(json.dumps({"message": "Worker 1 was lost."}))
    notes = " ".join(read([folder]).notes)
    assert "Worker 1 was lost." in notes
    assert "6 of 9 runs" in notes
    assert "1 combination cannot run here: too many" in notes
    assert "6 runs without series.npz" in notes


def test_a_study_without_a_finished_run_is_refused(tmp_path: Path) -> None:
    describe(tmp_path, name="empty", runs=2)
    with pytest.raises(DataError, match="without a finished run"):
        read([tmp_path])


def test_records_of_different_machines_are_shown_together_only_on_request(tmp_path: Path) -> None:
    folder = study(tmp_path, usual())
    changed(folder / "runs" / "run0", environment={"host": "elsewhere"})
    with pytest.raises(SpecError, match="--anyway"):
        read([folder])
    assert any("differ in host" in note for note in read([folder], anyway=True).notes)


def test_the_setting_to_talk_about_is_one_that_trains_together(tmp_path: Path) -> None:
    apart = together(8, strategy="independent", buckets=(), longer={})
    results = read([study(tmp_path, [*usual(), together(4, longer={}), apart])])
    best = fastest(results.rows)
    assert (best.line, best.workers) == ("allreduce", 4)
    assert max(results.rows, key=lambda row: row.scaling.throughput.value).line == "independent"


def test_of_many_curves_those_around_the_fastest_are_shown_first(tmp_path: Path) -> None:
    many = [
        together(2, strategy=f"allreduce:bucket={size}MB", spec={"lr": lr}, record={"learning": learning(2, lr=lr)})
        for size in range(1, 6)
        for lr in (0.1, 0.2, 0.3)
    ]
    results = read([study(tmp_path, [baseline(), *many], series=False)])
    shown = shown_first(results)
    assert len(results.lines) == 16
    assert fastest(results.rows).line in shown
    assert 1 < len(shown) <= 10
    assert set(chosen_first(results)["strategy"]) < set(choices(results)["strategy"])


def test_a_picture_of_another_model_than_the_fastest_shows_its_own_curves(tmp_path: Path) -> None:
    many = [
        together(2, strategy=f"allreduce:bucket={size}MB", spec={"workload": workload})
        for workload, sizes in (("vae", range(1, 8)), ("pilotnet", range(11, 18)))
        for size in sizes
    ]
    alone = [baseline(workload="vae"), baseline(workload="pilotnet")]
    results = read([study(tmp_path, [*alone, *many], series=False)])
    pictures = throughput(results).charts
    assert len(pictures) == 2
    for picture in pictures:
        shown = next(param["value"] for param in picture.specification["params"] if param["name"] == SHOWN)
        assert picture.lines is not None
        assert set(shown) <= set(picture.lines)
        assert shown
        assert png(svg(picture)).startswith(b"\x89PNG")

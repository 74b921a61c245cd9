"""Ours against a reference: like with like, as speed-up and efficiency, with what differs in words."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from studies.quick import record_of

from paceline import references
from paceline.errors import SpecError
from paceline.report.published import against
from paceline.report.results import Results, read
from paceline.report.section import Section
from paceline.report.tables import PageTable
from paceline.spec import RunSpec


def results_of(folder: Path, *settings: Mapping[str, Any], rate: float = 100.0) -> Results:
    """Runs that were never run: one worker alone has `rate`, several 90 % of it each."""
    paths = []
    for index, setting in enumerate(settings):
        spec = RunSpec(**{"workload": "vae", "strategy": "allreduce", "batch": 8, "steps": 4, **setting})
        record = record_of(spec, spec.workers // spec.workers_per_device, rate * (0.9 if spec.workers > 1 else 1))
        paths.append(folder / str(index))
        paths[-1].mkdir()
        record.save(paths[-1])
    return read(paths)


ALONE = {"workers": 1, "strategy": "independent"}


def line_of(table: PageTable, **wanted: str) -> dict[str, str]:
    """The row in which these columns have these texts."""
    lines = [dict(zip(table.headings, (cell.text for cell in row), strict=True)) for row in table.rows]
    (found,) = [line for line in lines if wanted.items() <= line.items()]
    return found


def points(section: Section) -> list[dict[str, Any]]:
    """Everything that is drawn in the first chart."""
    layers = section.charts[0].specification["layer"]
    found = [point for layer in layers for point in json.loads(layer["data"]["values"]) if "whose" in point]
    return [point for index, point in enumerate(found) if point not in found[:index]]


def test_speed_ups_and_efficiencies_stand_side_by_side(tmp_path: Path) -> None:
    section = against.section(results_of(tmp_path, ALONE, {"workers": 2}), references.load("seed-000"))
    line = line_of(section.tables[0], workers="2")
    assert (line["speed-up"], line["their speed-up"]) == ("1.80× (1.77–1.83)", "1.61× (no interval)"), (
        "20,085.33 ÷ 12,444.9"
    )
    assert (line["efficiency"], line["their efficiency"]) == ("90 % (89–91)", "81 % (no interval)")
    assert (line["batch per worker"], line["their batch"]) == ("8", "128")
    assert section.tables[0].lines == ("allreduce",)


@pytest.mark.parametrize("name", references.names())
def test_any_reference_can_be_compared_with_and_its_speeds_are_not_shown(tmp_path: Path, name: str) -> None:
    reference = references.load(name)
    section = against.section(results_of(tmp_path, ALONE, {"workers": 2}), reference)
    speeds = {f"{r.throughput:g}" for s in reference.series for r in s.rows if r.throughput and r.throughput > 100}
    shown = {cell.text for table in section.tables for row in table.rows for cell in row}
    drawn = json.dumps([chart.specification for chart in section.charts])
    assert not speeds & shown
    assert not any(f": {speed}" in drawn for speed in speeds)
    assert reference.source in drawn or not section.charts
    assert reference.hardware in shown


def test_each_curve_is_compared_with_the_series_most_like_it(tmp_path: Path) -> None:
    usual = {"workers": 2, "feed": "dataset:prefetch=2"}
    results = results_of(
        tmp_path,
        {**usual, "workload": "nmt:cell=fused,units=32", "strategy": "ps"},
        {**usual, "workload": "nmt:units=32", "strategy": "ps"},
        {**usual, "workload": "nmt:units=32", "strategy": "allreduce:packs=4"},
        {**usual, "workload": "nmt:units=32", "strategy": "independent", "feed": "synthetic"},
    )
    section = against.section(results, references.load("seed-002"))
    compared = {row[0].text: row[1].text for row in section.tables[0].rows}
    assert compared == {
        "nmt:cell=fused · ps · dataset:prefetch=2": "ps fused",
        "nmt · ps · dataset:prefetch=2": "ps stepwise",
        "nmt · allreduce:packs=4 · dataset:prefetch=2": "allreduce 4 packs",
        "nmt · independent · synthetic": "independent stepwise",
    }


def test_workers_that_share_a_device_are_compared_with_such(tmp_path: Path) -> None:
    results = results_of(tmp_path, ALONE, {"workers": 4, "workers_per_device": 2})
    section = against.section(results, references.load("seed-000"))
    line = line_of(section.tables[0], workers="4")
    assert (line["per device"], line["devices"], line["their devices"]) == ("2", "2", "2")
    assert line["their speed-up"] == "2.03× (no interval)", "25,300 ÷ 12,444.9"


def test_the_chart_has_ours_with_intervals_theirs_dashed_and_the_ideal(tmp_path: Path) -> None:
    section = against.section(results_of(tmp_path, ALONE, {"workers": 2}), references.load("seed-000"))
    assert [chart.name for chart in section.charts] == ["against-speed-up", "against-efficiency"]
    drawn = points(section)
    assert {point["devices"] for point in drawn if not point["ours"]} == {1, 2, 4, 8}
    assert [point["speedup"] for point in drawn if point["ours"]] == [pytest.approx(1.8)]
    layers = section.charts[0].specification["layer"]
    marks = [layer["mark"] for layer in layers]
    assert any(mark.get("strokeDash") for mark in marks)
    assert any(mark["type"] == "rule" for mark in marks)
    assert any(mark.get("text") == "ideal" for mark in marks)
    assert "Report 000" in section.charts[0].subtitle


def test_what_differs_and_what_is_known_to_be_wrong_is_said(tmp_path: Path) -> None:
    results = results_of(tmp_path, ALONE, {"workers": 2, "workload": "nmt", "strategy": "ps"})
    section = against.section(results, references.load("seed-002"))
    differs = section.tables[-1]
    assert [row[0].text for row in differs.rows] == [
        *("hardware", "workload", "batch per worker", "network", "speed-up against", "source"),
    ]
    assert line_of(differs, what="batch per worker") == {"what": "batch per worker", "ours": "8", "theirs": "360"}
    assert any("fault of seed-002" in note and "warm-up" in note for note in differs.notes)


def test_faults_of_series_that_are_not_compared_are_left_out(tmp_path: Path) -> None:
    results = results_of(tmp_path, ALONE, {"workers": 2, "workload": "nmt", "strategy": "ps"})
    section = against.section(results, references.load("seed-002"))
    assert not any("without communication" in note for note in section.tables[-1].notes)


def test_a_reference_without_a_speed_up_gives_words_and_no_chart(tmp_path: Path) -> None:
    section = against.section(results_of(tmp_path, ALONE, {"workers": 2}), references.load("seed-001"))
    assert section.charts == ()
    assert "no speed-up to compare with" in section.words[0]
    assert any("different machines" in note for note in section.tables[-1].notes)


def test_without_a_baseline_of_ours_the_remedy_is_told(tmp_path: Path) -> None:
    section = against.section(results_of(tmp_path, {"workers": 2}), references.load("seed-000"))
    assert any("add one worker of `independent`" in words for words in section.words)
    assert line_of(section.tables[0], workers="2")["speed-up"] == "–"


def test_a_strategy_that_they_have_not_stands_alone(tmp_path: Path) -> None:
    results = results_of(tmp_path, ALONE, {"workers": 2}, {"workers": 2, "strategy": "ps"})
    section = against.section(results, references.load("seed-000"))
    assert any("seed-000 has no counterpart of ps" in words for words in section.words)
    assert line_of(section.tables[0], ours="ps")["their speed-up"] == "–"


def test_a_table_of_the_users_own_is_compared_with(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("strategy,gpus,images/s\nreplicated,1,200\nreplicated,2,380\n")
    section = against.section(results_of(tmp_path, ALONE, {"workers": 2}), against.find(str(file)))
    assert line_of(section.tables[0], workers="2")["their speed-up"] == "1.90× (no interval)"
    assert any("allreduce with replicated" in words for words in section.words), "unlike strategies are named"


def test_an_unknown_reference_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"'seed-02'.*Did you mean 'seed-002'.*CSV"):
        against.find("seed-02")

"""Settings beside their baselines: the table of a study, its page and its explanation compare the same runs."""

import json
from pathlib import Path

from explain.situations import Situation, alone, write
from studies.quick import Notes, QuickEngine, study

from paceline.breakdown.comparison import comparisons
from paceline.explain.verdict import account, explain
from paceline.measure.runs import find, scaling_of
from paceline.record import STUDY_NAME
from paceline.report import results
from paceline.studies.grid import spread
from paceline.studies.schedule import carry_out
from paceline.studies.store import Store
from paceline.studies.table import rows_of


def test_table_page_and_explanation_compare_a_study_with_the_same_baselines(tmp_path: Path) -> None:
    for scaling in ("weak", "strong"):
        # In both, one worker with a batch of 8 and one with 16: which of them is the baseline depends on the scaling.
        grid = spread(study(workers=[1, 2], batch=[8, 16], scaling=scaling, strategy="allreduce"))
        contents = carry_out(grid, Store(tmp_path / scaling), QuickEngine(), Notes())
        shown = [row.scaling for row in rows_of(grid, contents) if row.scaling is not None]
        runs = find([tmp_path / scaling])
        assert runs.scaling == scaling
        explained = [case.scaling for case in comparisons(runs.runs, scaling=runs.scaling)]
        reported = [row.scaling for row in results.read([tmp_path / scaling]).rows]
        batches = [
            sorted((r.records[0].spec.workers, r.records[0].batch, r.baseline[0].batch) for r in rows)
            for rows in (shown, explained, reported)
        ]
        assert batches[0] == batches[1] == batches[2]
        factor = 2 if scaling == "strong" else 1
        assert {alone // own for workers, own, alone in batches[0] if workers == 2} == {factor}


def test_a_baseline_is_not_compared_with_itself(tmp_path: Path) -> None:
    folders = [write(tmp_path / "1", alone()), write(tmp_path / "2", Situation())]
    one, two = comparisons(find(folders).runs)
    assert one.baseline is None
    assert one.gap is None
    assert one.efficiency is None
    assert two.baseline is not None
    assert two.baseline.runs == one.setting.runs
    assert two.efficiency == two.scaling.efficiency


def test_a_gap_within_the_interval_of_the_efficiency_is_noise(tmp_path: Path) -> None:
    folders = [write(tmp_path / "1", alone()), write(tmp_path / "2", Situation())]
    _, clear = comparisons(find(folders).runs)
    assert clear.clear_gap is clear.gap is not None
    unsure = Situation(record={"throughput": {"value": 160.0, "low": 100.0, "high": 250.0, "unit": "images/s"}})
    _, noisy = comparisons(find([folders[0], write(tmp_path / "3", unsure)]).runs)
    assert noisy.gap is not None
    assert noisy.clear_gap is None
    assert explain(noisy).without_gap


def test_one_setting_is_explained_as_it_is_among_others(tmp_path: Path) -> None:
    found = find([write(tmp_path / "1", alone()), write(tmp_path / "2", Situation())])
    _, case = comparisons(found.runs)
    among_others = account(found).explanations[1]
    assert (explain(case).verdict, explain(case).notes) == (among_others.verdict, among_others.notes)


def test_only_weak_and_strong_are_taken_from_a_description(tmp_path: Path) -> None:
    assert scaling_of(tmp_path) is None
    for word, read in (("strong", "strong"), ("weak", "weak"), ("sideways", None)):
        (tmp_path / STUDY_NAME).write_text(json.dumps({"scaling": word}))
        assert scaling_of(tmp_path) == read

"""What every section says: figures that add up, titles that tell the finding, and nothing that was not measured."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report.made import STEPS, baseline, changed, learning, study, together, usual

from paceline.breakdown.gap import LABELS
from paceline.errors import DataError
from paceline.report import page
from paceline.report.arrivals import arrivals
from paceline.report.gap import gap_to_ideal
from paceline.report.headline import headline, table, verdict
from paceline.report.learning import curve, loss
from paceline.report.measured import measured
from paceline.report.results import Results, read
from paceline.report.scaling import point, speedup_and_efficiency, throughput
from paceline.report.section import Chart, Section
from paceline.report.step import step
from paceline.report.utilisation import utilisation


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read([study(tmp_path_factory.mktemp("made"), usual())])


def data_of(chart: Chart) -> list[list[dict[str, Any]]]:
    """All data in a chart, the longest first."""
    found: list[list[dict[str, Any]]] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("values"), str):
                found.append(json.loads(part["values"]))
            for item in part.values():
                walk(item)
        elif isinstance(part, list):
            for item in part:
                walk(item)

    walk(chart.specification)
    return sorted(found, key=len, reverse=True)


def one(section: Section | None) -> Section:
    assert section is not None
    return section


def test_the_questions_are_answered_in_order(results: Results) -> None:
    names = [section.name for section in page.sections(results)]
    assert names == [
        *("settings", "throughput", "speed-up", "gap", "projection", "loss"),
        *("arrivals", "step", "utilisation", "measured"),
    ]


def test_more_sections_come_before_what_was_measured(results: Results) -> None:
    more = Section(name="more", title="More")
    assert [section.name for section in page.sections(results, [more])][-2:] == ["more", "measured"]


def test_the_verdict_names_the_fastest_and_why_it_is_not_faster(results: Results) -> None:
    first, second = verdict(results)
    assert first.startswith("allreduce · 2 workers")
    assert "the rate of one worker on 2 devices" in first
    assert "more than ideal" in second
    assert "worker 1" in second


def test_two_settings_are_called_different_only_where_a_difference_is_seen(tmp_path: Path) -> None:
    same = [*usual(), *(together(2, turn, strategy="allreduce:bucket=1MB") for turn in range(2))]
    first, _ = verdict(read([study(tmp_path, same)]))
    assert "not measurably different from" in first


def test_conditions_are_columns_where_they_vary_and_in_the_title_where_they_do_not(tmp_path: Path) -> None:
    results = read([study(tmp_path / "one", usual())])
    assert "weak scaling, batch 8 per worker, lr 0.01" in table(results).title
    assert "lr" not in table(results).headings
    faster = together(2, strategy="ps", spec={"lr": 0.02}, record={"learning": learning(2, lr=0.02)})
    varied = table(read([study(tmp_path / "two", [baseline(), faster])]))
    assert [row[varied.headings.index("lr")].text for row in varied.rows][-1] == "0.02"


def test_figures_carry_their_intervals(results: Results) -> None:
    found = table(results)
    cell = found.rows[0][found.headings.index("images/s (95 %)")]
    assert cell.low is not None
    assert cell.high is not None
    assert isinstance(cell.value, float)
    assert cell.low <= cell.value <= cell.high
    assert point(results.rows[0])["rate"].endswith("images/s")


def test_the_ideal_line_is_one_workers_rate_times_the_devices_that_compute(tmp_path: Path) -> None:
    served = together(2, strategy="ps", buckets=(), devices=3)
    results = read([study(tmp_path, [baseline(), served])])
    (alone,) = (r.scaling.throughput.value for r in results.rows if r.line == "independent")
    ideals = next(rows for rows in data_of(throughput(results).charts[0]) if "ideal" in rows[0])
    at = {row["workers"]: row["ideal"] for row in ideals if row["line"] == "ps"}
    assert at == {1: pytest.approx(alone), 2: pytest.approx(2 * alone)}
    (row,) = (r for r in results.rows if r.line == "ps")
    assert row.scaling.ideal == pytest.approx(3 * alone)


def test_without_a_baseline_there_is_no_speed_up_and_no_gap(tmp_path: Path) -> None:
    results = read([study(tmp_path, [together(2)])])
    assert speedup_and_efficiency(results) is None
    assert gap_to_ideal(results) is None
    assert "its speed-up is not known: there is no one-worker run." in verdict(results)[0]


def test_the_parts_of_a_bar_add_up_to_the_gap(results: Results) -> None:
    section = one(gap_to_ideal(results))
    bars = data_of(section.charts[0])[0]
    divided = [row for row in results.rows if row.gap is not None]
    assert len(divided) == 2
    for number, row in enumerate(divided):
        assert row.gap is not None
        parts = [bar["share"] for bar in bars if bar["of"] == number]
        assert len(parts) == len(LABELS)
        assert math.fsum(parts) == pytest.approx(row.gap.seconds / row.gap.step_seconds, abs=1e-5)
    (found,) = section.tables
    for cells in found.rows:
        values = dict(zip(found.headings, (cell.value for cell in cells), strict=True))
        assert math.fsum(float(values[name] or 0) for name in LABELS.values()) == pytest.approx(values["gap"])


def test_a_gap_within_noise_is_not_divided(tmp_path: Path) -> None:
    equal = [together(2, strategy="independent", phases={**baseline().phases}, longer={}, buckets=(), noise=0.0)]
    section = one(gap_to_ideal(read([study(tmp_path, [baseline(), *equal])])))
    assert "No gap" in section.title
    assert section.charts == ()


def test_a_loss_curve_is_thinned_by_means_and_keeps_its_end(results: Results) -> None:
    row = results.rows[0]
    found = curve(row, 6, exact=True)
    assert len(found.loss) == 6
    losses = [loss for loss in row.record.learning.loss if loss is not None]
    assert found.loss[0] == pytest.approx(np.mean(losses[: STEPS // 6]))
    assert found.samples[-1] == row.record.learning.samples_seen
    series = row.runs[0].series
    assert series is not None
    assert found.seconds[-1] == pytest.approx(float(np.sum(series[0].end - series[0].begin)))


def test_loss_is_compared_after_as_many_samples_and_after_as_long(results: Results) -> None:
    section = one(loss(results))
    assert [chart.name for chart in section.charts] == ["loss-against-samples", "loss-against-time"]
    assert any("after 480 samples" in words for words in section.words)
    kinds = {row["kind"] for row in data_of(section.charts[0])[0]}
    assert kinds == {"training", "validation"}
    headings = section.tables[0].headings
    assert {"samples", "updates", "global batch", "lr", "lr rule", "gradients by"} <= set(headings)


def test_a_loss_that_was_not_finite_is_left_out(tmp_path: Path) -> None:
    broken = {**learning(2), "loss": [None] * STEPS, "validation": []}
    results = read([study(tmp_path, [baseline(), together(2, record={"learning": broken})])])
    (found,) = one(loss(results)).tables
    assert [row[0].text for row in found.rows] == ["independent"]


def test_the_strips_show_who_is_late(results: Results) -> None:
    section = one(arrivals(results))
    (chart,) = section.charts
    assert "worker 1 is late in 100 % of the steps, by 12" in chart.title
    strips = data_of(chart)[0]
    late = [row["late"] for row in strips if "worker 1" in row["name"] and not row["median"]]
    early = [row["late"] for row in strips if "worker 0" in row["name"] and not row["median"]]
    assert min(late) > max(early)
    assert np.median(late) == pytest.approx(12, abs=1)


def test_without_series_the_strips_have_the_records_medians(tmp_path: Path) -> None:
    results = read([study(tmp_path, usual(), series=False)])
    strips = data_of(one(arrivals(results)).charts[0])[0]
    assert all(row["median"] for row in strips)
    assert {round(row["late"]) for row in strips} == {-12, 12}
    assert step(results) is None


def test_nobody_waits_where_nothing_is_exchanged(tmp_path: Path) -> None:
    assert arrivals(read([study(tmp_path, [baseline()])])) is None


def test_the_exchange_in_a_step_is_hidden_until_backward_ends(results: Results) -> None:
    section = one(step(results))
    chart = next(chart for chart in section.charts if chart.line == "allreduce")
    slices = data_of(chart)[0]
    lanes = {lane: [s for s in slices if s["lane"] == lane] for lane in {s["lane"] for s in slices}}
    assert len(lanes) == 4  # phases and buckets of two workers
    phases, buckets = lanes[0], lanes[1]
    arrived = next(s["to"] for s in phases if s["part"] == "backward")
    assert {s["part"] for s in buckets} == {"overlapped communication", "exposed communication"}
    for part in buckets:
        hidden = part["part"] == "overlapped communication"
        assert part["to"] <= arrived + 1e-3 if hidden else part["from"] >= arrived - 1e-3
    ends = [s["to"] for s in phases]
    assert [s["from"] for s in phases][1:] == pytest.approx(ends[:-1])


def test_utilisation_is_divided_by_who_used_the_device(tmp_path: Path) -> None:
    server = {"device": "cpu:0", "utilisation_percent": 4.0}
    busy = together(2, strategy="ps", buckets=(), outside_percent=6.0, stolen_percent=1.0, servers=[server])
    section = one(utilisation(read([study(tmp_path, [busy])])))
    headings, (row,) = section.tables[0].headings, section.tables[0].rows
    values = dict(zip(headings, (cell.value for cell in row), strict=True))
    assert values["its servers"] == pytest.approx(2.0)  # of two devices
    assert values["other processes"] == pytest.approx(3.0)
    assert values["other virtual machines"] == pytest.approx(1.0)


def test_utilisation_that_was_not_measured_is_not_shown(tmp_path: Path) -> None:
    folder = study(tmp_path, [baseline()])
    unknown = dict.fromkeys(("busy_percent", "stolen_percent", "workers_percent"))
    changed(folder / "runs" / "run0", utilisation=[{"device": "cuda:0", "cores": [], **unknown}])
    assert utilisation(read([folder])) is None


def test_where_and_with_what_is_told_and_warnings_are_said_once(tmp_path: Path) -> None:
    warned = [together(2, turn, record={"warnings": [f"The pace varied by {turn + 3} %."]}) for turn in range(2)]
    section = measured(read([study(tmp_path, [baseline(), *warned])]))
    facts = {row[0].text: row[1].text for row in section.tables[0].rows}
    assert facts["version of torch"] == "2.13.0"
    assert facts["host"] == "here"
    assert facts["parameters"] == "3,410,058"
    told = [row[1].text for row in section.tables[1].rows]
    assert [text for text in told if "pace varied" in text] == ["The pace varied by 3 %."]


def test_a_record_without_every_phase_is_refused_by_name(tmp_path: Path) -> None:
    folder = study(tmp_path, usual())
    file = folder / "runs" / "run2" / "record.json"
    content = json.loads(file.read_text())
    del content["phases"]["wait"]
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"run2/record\.json is not a complete record: .*`wait`"):
        read([folder])


def test_one_run_alone_gives_a_true_report(tmp_path: Path) -> None:
    folder = study(tmp_path, [baseline()])
    results = read([folder / "runs" / "run0"])
    assert verdict(results)[0].startswith("independent · 1 worker reaches ")
    assert headline(results).title == "1 setting, 1 run"
    assert len(table(results).rows) == 1
    assert "<h1>run0</h1>" in page.page(results, page.sections(results))

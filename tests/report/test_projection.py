"""The projection on the page: as `paceline project` answers, with bands over what was measured."""

from pathlib import Path

import pytest
from explain.situations import USUAL
from report.made import baseline, describe, study, together, usual

from paceline.project.questions.answer import Answer, Runs
from paceline.project.questions.points import on_nodes
from paceline.project.questions.whatif import Question
from paceline.project.questions.words import number
from paceline.report import charts
from paceline.report.page import page, sections
from paceline.report.pictures import svg
from paceline.report.projection import chart, projection
from paceline.report.results import Results, read


def scaled(folder: Path) -> Path:
    """One to four workers, each further one with more to exchange."""
    more = [together(n, phases={**USUAL, "exchange": 0.01 * n}) for n in (2, 3, 4)]
    return study(folder, [baseline(), *more])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read([scaled(tmp_path_factory.mktemp("scaled"))])


def answer(results: Results, most: int = 32) -> Answer:
    records = [record for row in results.rows for record in row.scaling.records]
    return Runs.of(records).ask(on_nodes(list(range(1, most + 1)), None, None), Question())


def test_the_page_shows_what_the_command_answers(results: Results) -> None:
    section = projection(results)
    assert section is not None
    told, last = " ".join(section.words), answer(results).curve.points[-1]
    assert "allreduce: 32 workers would reach" in told
    assert f"would reach {number(last.throughput)} images/s" in told
    assert "Validated on" in told
    (drawn,) = section.charts
    assert drawn.line == "allreduce"
    assert [row[1].value for row in section.tables[0].rows] == [1, 2, 4, 8, 16, 32]


def layers(found: Answer) -> list[str]:
    return [layer["mark"]["type"] for layer in chart(found).specification["layer"]]


def test_a_chart_has_both_bands_the_ideal_the_knee_and_the_points(tmp_path: Path) -> None:
    steep = [together(n, phases={**USUAL, "exchange": 0.002 * 2**n}) for n in (2, 3, 4)]
    found = answer(read([study(tmp_path / "steep", [baseline(), *steep])]))
    assert found.curve.knee_workers is not None
    assert sorted(layers(found)) == sorted(["area", "area", "line", "line", "rule", "text", "point", "point"])
    drawn = svg(chart(found))
    assert f"knee: {found.curve.knee_workers}" in drawn
    assert "images/s" in drawn


def test_a_wide_range_is_drawn_on_logarithmic_axes(results: Results) -> None:
    for most, kind in ((32, None), (1000, "log")):
        scale = chart(answer(results, most)).specification["layer"][0]["encoding"]["x"]["scale"]
        assert scale.get("type") == kind


def test_the_ideal_line_starts_from_one_worker_alone(results: Results) -> None:
    found = answer(results)
    rate = dict(reversed(found.measured))[1]
    alone = next(row for row in results.rows if row.workers == 1)
    assert rate == pytest.approx(alone.scaling.throughput.value)


def test_a_page_holds_the_projection(results: Results) -> None:
    text = page(results, sections(results))
    assert 'id="projection"' in text
    assert 'data-chart="projection-1"' in text


def test_two_strategies_have_a_chart_each_in_the_colour_of_their_line(tmp_path: Path) -> None:
    found = read([study(tmp_path / "two", usual())])
    section = projection(found)
    assert section is not None
    assert {drawn.line for drawn in section.charts} == {"allreduce", "ps"}
    domain = section.charts[0].specification["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert domain == list(found.lines)
    assert charts.SHOWN in {param["name"] for param in section.charts[0].specification["params"]}


def test_without_a_second_count_of_workers_there_is_no_projection(tmp_path: Path) -> None:
    assert projection(read([study(tmp_path / "one", [baseline()])])) is None
    assert projection(read([study(tmp_path / "two", [together(2)])])) is None


def test_what_cannot_be_projected_says_why(tmp_path: Path) -> None:
    # Speed that falls to nothing is no scaling.
    slow = together(4, phases={**USUAL, "exchange": 900.0})
    folder = study(tmp_path / "slow", [baseline(), together(2), slow, *usual()[-2:]])
    section = projection(read([folder]))
    assert section is not None
    assert any(words.startswith("No projection for allreduce: ") for words in section.words)


def test_where_a_batch_is_divided_it_stays_the_same_in_all(tmp_path: Path) -> None:
    situations = [baseline(), *(together(n, samples=8 // n) for n in (2, 4))]
    folder = study(tmp_path / "strong", situations)
    describe(folder, name="strong", runs=3, scaling="strong")
    section = projection(read([folder]))
    assert section is not None
    rows = section.tables[0].rows
    workers = [count for row in rows if isinstance(count := row[1].value, int)]
    assert (len(workers), max(workers)) == (len(rows), 8)

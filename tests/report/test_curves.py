"""Curves of measured values: what is certain is filled and joined and has a bar; what is not is hollow."""

import re
from pathlib import Path

import altair as alt
import pytest
from report import made

from paceline.measure.stats import Figure
from paceline.report import charts, curves
from paceline.report.page import page, sections
from paceline.report.pictures import png, svg
from paceline.report.results import Results, read
from paceline.report.section import Chart

VAGUE = {"low": 2e-11, "high": 2e10}


def study(folder: Path, **throughput: float | None) -> Results:
    """One worker alone, and two and four with each of two strategies, one run each."""
    situations = [made.baseline(), *(made.together(n, strategy=s) for s in ("allreduce", "ps") for n in (2, 4))]
    made.study(folder, situations, series=False)
    for run in sorted((folder / "runs").iterdir()):
        made.changed(run, throughput=throughput)
    return read([folder])


def drawn(results: Results, name: str) -> Chart:
    return next(chart for section in sections(results) for chart in section.charts if chart.name == name)


@pytest.mark.parametrize(
    ("value", "certain"),
    [
        (Figure(10.0, 9.0, 11.0), True),
        (Figure(10.0, fixed=True), False),
        (Figure(10.0, 9.0, 11.0, host_limited=True), False),
        (Figure(10.0, 9.0, 11.0, impossible=True), False),
    ],
)
def test_only_a_certain_value_has_a_bar(value: Figure, certain: bool) -> None:
    row = curves.columns("rate", value)
    assert row["rate_certain"] is certain
    assert (row["rate_low"], row["rate_high"]) == ((9.0, 11.0) if certain else (None, None))


@pytest.mark.parametrize("value", [Figure(10.0), Figure(10.0, 2e-11, 2e10)])
def test_what_is_not_known_is_not_drawn(value: Figure) -> None:
    assert curves.columns("rate", value) == {}


def test_what_was_not_measured_has_no_columns() -> None:
    assert curves.columns("speedup", None) == {}


@pytest.mark.parametrize(
    "ends", [VAGUE, {"low": None, "high": None}, {"low": 1e-200, "high": 1e200}, {"low": 1e-300, "high": 1e300}]
)
def test_a_study_of_which_nothing_is_known_has_a_page_and_pictures(tmp_path: Path, ends: dict[str, float]) -> None:
    results = study(tmp_path, **ends)
    assert "not known" in drawn(results, "throughput").title
    assert page(results, sections(results)).endswith("</html>\n")
    picture = svg(drawn(results, "throughput"))
    assert _lines(picture) == 0
    assert png(picture).startswith(b"\x89PNG")


def test_certain_neighbours_are_joined_and_the_ideal_is_named_once(tmp_path: Path) -> None:
    chart = drawn(study(tmp_path), "throughput")
    picture = svg(chart)
    assert "hollow" not in chart.subtitle
    assert _lines(picture) == 2, "one line from two to four workers for each strategy"
    assert picture.count(">ideal<") == 1


def _lines(picture: str) -> int:
    """Lines that join two values: unlike bars and ticks they change both coordinates."""
    found = re.findall(r'<line [^>]*x2="([^"]+)" y2="([^"]+)"', picture)
    return sum(float(x) != 0 and float(y) != 0 for x, y in found)


def test_the_legend_is_in_the_order_of_the_curves_and_wraps_long_names() -> None:
    encoding: charts.Datum = charts.colour(["a", "b"]).to_dict()  # type: ignore[assignment]  # one field, one channel
    legend = encoding["legend"]
    assert legend["direction"] == "horizontal", "a vertical one with several columns is filled in another order"
    assert legend["labelLimit"] == 0
    assert charts.CHARACTERS in legend["labelExpr"]


def test_every_chart_is_valid_vega_lite(tmp_path: Path) -> None:
    results = read([made.study(tmp_path, made.usual())])
    everything = [chart for section in sections(results) for chart in section.charts]
    assert len(everything) >= 8
    for chart in everything:
        alt.Chart.from_dict({**chart.specification, "width": 300}, validate=True)

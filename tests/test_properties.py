"""Whatever was measured, every verb answers or refuses clearly, and no impossible number appears without its mark."""

import csv
import io
import json
import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from generated import GeneratedStudy, studies, tables
from hypothesis import HealthCheck, Phase, given, settings
from rich.console import Console
from typer.testing import CliRunner

from paceline.cli.main import app
from paceline.cli.study_output import print_table
from paceline.errors import PacelineError
from paceline.measure.stats import Figure
from paceline.report.page import page, sections
from paceline.report.pictures import svg
from paceline.report.results import read
from paceline.studies.export import plain, to_csv
from paceline.studies.store import Store
from paceline.studies.table import make_table, rows_of

_RUNNER = CliRunner(env={"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb"})
_SETTINGS = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,)
)
_FEW, _MANY = 50, 1_000
_POSSIBLE = 1.05
"""The largest efficiency that needs no mark."""

_MARK = "more than the devices can deliver"
_NOT_A_NUMBER = re.compile(r"(?<![\w:=])[+-]?(nan|NaN|inf|Infinity)(?!\w)")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="properties-") as folder:
        yield Path(folder)


def _answer(*arguments: str) -> str:
    """What a command prints, or its refusal; anything else that it raises is a defect."""
    result = _RUNNER.invoke(app, arguments)
    if isinstance(result.exception, PacelineError):
        return _refusal(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def _refusal(error: PacelineError) -> str:
    """The message of an error, which is short and holds no traceback."""
    text = str(error)
    assert text.strip()
    assert len(text.splitlines()) <= 3, text
    assert "Traceback" not in text
    return text


def _check_words(text: str) -> None:
    """No number that is none, and no traceback, in what is printed."""
    assert not (found := _NOT_A_NUMBER.search(text)), text[max(0, found.start() - 200) : found.end() + 50]
    assert "Traceback" not in text


def _check_figure(value: Figure) -> None:
    for end in (value.value, value.low, value.high):
        assert end is None or (math.isfinite(end) and end >= 0), value


def explains(folder: Path) -> None:
    """In words and as data, without NaN and infinity."""
    _check_words(_answer("explain", str(folder)))
    answer = _answer("explain", str(folder), "--json")
    if answer.startswith("{"):
        json.loads(answer, parse_constant=_no_number)


def _no_number(name: str) -> float:
    raise AssertionError(f"{name} in JSON")


def tabulates(study: GeneratedStudy, folder: Path) -> None:
    """On a narrow and on a wide terminal, as CSV and as data; an impossible efficiency has a note."""
    contents = Store(folder).read(study.grid.in_turns())
    table = make_table(study.grid, rows_of(study.grid, contents), contents)
    for width in (60, 400):
        out = io.StringIO()
        print_table(table, Console(file=out, width=width, highlight=False, emoji=False, force_terminal=True))
        _check_words(out.getvalue())
    for row in table.values:
        for value in row.values():
            if isinstance(value, Figure):
                _check_figure(value)
        efficiency = row["efficiency"]
        if isinstance(efficiency, Figure) and efficiency.value > _POSSIBLE:
            assert _MARK in " ".join(table.notes)
    assert len(list(csv.reader(io.StringIO(to_csv(table))))) == len(table.values) + 1
    json.dumps([{name: plain(value) for name, value in row.items()} for row in table.values], allow_nan=False)


def projects(source: Path) -> None:
    """In words and as data."""
    _check_words(_answer("project", str(source), "--workers", "1..16", "--efficiency", "0.8"))
    answer = _answer("project", str(source), "--workers", "1,2,64", "--json")
    if answer.startswith("{"):
        json.loads(answer, parse_constant=_no_number)


def reports(folder: Path, *, pictures: int) -> None:
    """The page with everything in it, and some of its charts as pictures."""
    try:
        results = read([folder])
    except PacelineError as error:
        _refusal(error)
        return
    answered = sections(results)
    text = re.sub(r"<(script|style).*?</\1>", "", page(results, answered), flags=re.DOTALL)
    _check_words(re.sub(r"<[^>]*>", " ", text))
    if any(row.scaling.efficiency and row.scaling.efficiency.value > _POSSIBLE for row in results.rows):
        assert _MARK in text
    charts = [chart for section in answered for chart in section.charts]
    for chart in charts[:pictures]:
        assert svg(chart).startswith("<svg")


def _whole(study: GeneratedStudy, *, pictures: int) -> None:
    with _folder() as place:
        folder = place / "study"
        study.put(folder)
        explains(folder)
        tabulates(study, folder)
        projects(folder)
        reports(folder, pictures=pictures)


def _table(text: str) -> None:
    with _folder() as place:
        file = place / "table.csv"
        file.write_text(text)
        projects(file)
        _check_words(_answer("references", "check", str(file)))


@pytest.mark.timeout(1200)
@settings(_SETTINGS, max_examples=_FEW)
@given(studies())
def test_any_study_gives_a_page_a_table_an_explanation_and_a_projection_or_a_refusal(study: GeneratedStudy) -> None:
    _whole(study, pictures=1)


@pytest.mark.timeout(1200)
@settings(_SETTINGS, max_examples=_FEW)
@given(tables())
def test_any_table_gives_a_projection_and_an_audit_or_a_refusal(text: str) -> None:
    _table(text)


@pytest.mark.prove
@pytest.mark.timeout(7200)
@settings(_SETTINGS, max_examples=_MANY)
@given(studies())
def test_a_thousand_studies_give_all_four_or_a_refusal(study: GeneratedStudy) -> None:
    _whole(study, pictures=100)


@pytest.mark.prove
@pytest.mark.timeout(7200)
@settings(_SETTINGS, max_examples=_MANY)
@given(tables())
def test_a_thousand_tables_give_both_or_a_refusal(text: str) -> None:
    _table(text)

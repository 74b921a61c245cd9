"""The page in a real browser: offline, at both widths and in both colour schemes, by mouse and by keyboard."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator
from report import made
from report.browser import Visit, chromium, visit

from paceline.report.page import page, sections
from paceline.report.published import against, styles
from paceline.report.results import read
from paceline.report.section import Section
from paceline.report.tables import PageTable, number

HOSTILE = """<img src=x onerror="document.title='taken'"> & 'two' "quotes" </script><script>alert(1)</script>"""
NUMBERS = PageTable(
    name="numbers",
    title="Numbers",
    headings=("count",),
    rows=tuple((number(value, "{:,}".format),) for value in (1000, None, 9, 70)),
)
BY_EYE: list[tuple[int, Literal["light", "dark"]]] = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One worker alone, and two that exchange: a real study in a few seconds."""
    out = tmp_path_factory.mktemp("study") / "tiny"
    settings = ["--workers", "2", "--strategy", "allreduce", "--batch", "16", "--validate", "end"]
    settings += ["--timing", "fixed:warmup=2,steps=10"]  # known, however busy the machine is
    command = [sys.executable, "-m", "paceline", "study", "vae:channels=4,samples=256", *settings, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    return out


@pytest.fixture(scope="module")
def report(study: Path) -> Path:
    """With every part that a page can have, and a table whose order is known."""
    results = read([study])
    more = [
        against.section(results, against.find("seed-000")),
        styles.section("seed-002", [row.scaling for row in results.rows]),
        Section(name="numbers", title="Numbers", tables=(NUMBERS,)),
    ]
    return _written(study.parent / "report.html", page(results, sections(results, more)))


@pytest.fixture(scope="module")
def hostile_report(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same study with a name, a workload and a host that try to be more than text."""
    folder = tmp_path_factory.mktemp("hostile") / "study"
    shutil.copytree(study, folder)
    _change(folder / "study.json", ("name",))
    first, *others = sorted(folder.glob("runs/*/record.json"))
    for file in (first, *others):
        _change(file, ("environment", "processor"))
    for file in others:
        _change(file, ("spec", "feed"))
    results = read([folder], anyway=True)
    return _written(folder.parent / "report.html", page(results, sections(results)))


def _change(file: Path, keys: tuple[str, ...]) -> None:
    content = json.loads(file.read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = HOSTILE
    file.write_text(json.dumps(content))


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


@pytest.fixture
def seen(browser: Browser, report: Path) -> Iterator[Visit]:
    with visit(browser, report) as opened:
        _drawn(opened)
        yield opened


def _drawn(opened: Visit) -> None:
    opened.page.wait_for_selector("html[data-ready=true]", state="attached")


@pytest.mark.parametrize(("width", "scheme"), BY_EYE)
def test_the_page_opens_offline_without_a_complaint_and_draws_every_chart(
    browser: Browser, report: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    with visit(browser, report, width=width, scheme=scheme) as opened:
        _drawn(opened)
        charts = opened.page.locator(".chart")
        assert charts.count() >= 5
        for index in range(charts.count()):
            chart = charts.nth(index)
            chart.scroll_into_view_if_needed()
            box = chart.locator("svg.marks").bounding_box()
            assert box is not None
            assert 200 < box["width"] <= width
            assert box["height"] > 100
            assert _marks(chart) > 0, chart.get_attribute("data-chart")
        assert opened.complaints == []
        assert opened.requests == [report.resolve().as_uri()]
        wide = opened.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0, "the page scrolls sideways"
        assert _is_dark(opened, "body") == (scheme == "dark")
        assert _is_dark(opened, ".chart svg.marks") == (scheme == "dark")


def _marks(chart: Locator) -> int:
    """Shapes that stand for data: points, bars, lines."""
    return chart.locator(":is(.mark-symbol, .mark-rect, .mark-line, .mark-rule).role-mark path").count()


def _is_dark(opened: Visit, selector: str) -> bool:
    colour = opened.page.locator(selector).first.evaluate("e => getComputedStyle(e).backgroundColor")
    red, green, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return red + green + blue < 3 * 128


def test_a_request_that_would_leave_the_machine_is_seen(browser: Browser, tmp_path: Path) -> None:
    file = _written(tmp_path / "page.html", '<img src="http://paceline.invalid/a.png"><script>undefined.x</script>')
    with visit(browser, file) as opened:
        assert opened.outward == ["http://paceline.invalid/a.png"]
        assert len(opened.complaints) == 2


def test_choosing_a_strategy_changes_charts_and_tables(seen: Visit) -> None:
    chart = seen.page.locator("[data-chart=throughput]")
    rows = seen.page.locator("[data-table=settings] tbody tr:not([hidden])")
    points, lines = chart.locator(".mark-symbol.role-mark path"), rows.count()
    before = points.count()
    assert before == lines == 2
    box = seen.page.get_by_role("checkbox", name="allreduce")
    box.uncheck()
    _until(seen, points, before - 1)
    assert rows.count() == lines - 1
    box.focus()
    seen.page.keyboard.press("Space")
    _until(seen, points, before)
    assert rows.count() == lines
    assert seen.complaints == []


def test_a_chart_beside_one_that_is_hidden_takes_its_place(browser: Browser, tmp_path: Path) -> None:
    alone = [made.baseline(workload=workload) for workload in ("pilotnet", "vae")]
    together = [made.together(spec={"workload": workload}) for workload in ("pilotnet", "vae")]
    results = read([made.study(tmp_path, [*alone, *together], series=False)])
    with visit(browser, _written(tmp_path / "report.html", page(results, sections(results)))) as seen:
        drawn = seen.page.locator("[data-chart=throughput-1] .marks")
        beside = _width(drawn)
        seen.page.get_by_role("checkbox", name="vae").uncheck()
        seen.page.wait_for_function("document.querySelector('[data-chart=throughput-1] .marks').clientWidth > 800")
        assert seen.page.locator("[data-chart=throughput-2]").is_hidden()
        assert _width(drawn) > 1.8 * beside
        seen.page.get_by_role("checkbox", name="vae").check()
        seen.page.wait_for_function("document.querySelector('[data-chart=throughput-1] .marks').clientWidth < 600")
        assert _width(seen.page.locator("[data-chart=throughput-2] .marks")) == pytest.approx(beside, abs=2)
        assert seen.complaints == []


def _width(drawn: Locator) -> float:
    box = drawn.bounding_box()
    assert box is not None
    return box["width"]


def _until(seen: Visit, found: Locator, count: int) -> None:
    """A chart is drawn anew a moment after the choice."""
    for _ in range(100):
        if found.count() == count:
            return
        seen.page.wait_for_timeout(20)
    assert found.count() == count


def test_a_table_is_sorted_by_mouse_and_by_keyboard(seen: Visit) -> None:
    table = seen.page.locator("[data-table=differences]")
    heading = table.locator("th").first
    texts = table.locator("tbody tr td:first-child")
    given = texts.all_text_contents()
    assert given != sorted(given)
    heading.get_by_role("button").click()
    assert texts.all_text_contents() == sorted(given)
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.get_by_role("button").focus()
    seen.page.keyboard.press("Enter")
    assert texts.all_text_contents() == sorted(given, reverse=True)
    assert heading.get_attribute("aria-sort") == "descending"


def test_numbers_are_sorted_as_numbers_and_what_was_not_measured_comes_last(seen: Visit) -> None:
    table = seen.page.locator("[data-table=numbers]")
    heading, texts = table.get_by_role("button", name="count"), table.locator("td")
    assert texts.all_text_contents() == ["1,000", "–", "9", "70"]
    heading.click()
    assert texts.all_text_contents() == ["9", "70", "1,000", "–"]
    heading.click()
    assert texts.all_text_contents() == ["1,000", "70", "9", "–"]


def test_tables_are_copied_as_csv_and_as_markdown(seen: Visit) -> None:
    table = seen.page.locator("[data-table=seed-002-1]")
    headings = table.locator("th").all_text_contents()
    first = table.locator("tbody tr").first.locator("td").all_text_contents()
    table.get_by_role("button", name="Copy as CSV").click()
    header, line, *_ = _copied(seen).splitlines()
    assert [name for name in header.split(",") if not name.endswith((" low", " high"))] == headings
    assert line.split(",")[:2] == first[:2]
    assert float(line.split(",")[2]) == pytest.approx(float(first[2]), abs=0.001)
    table.get_by_role("button", name="Copy as Markdown").click()
    header, rule, line, *_ = _copied(seen).splitlines()
    assert header == f"| {' | '.join(headings)} |"
    assert rule.count("---") == len(headings)
    assert line == f"| {' | '.join(first)} |"


def _copied(seen: Visit) -> str:
    seen.page.get_by_role("button", name="Copied").wait_for()
    text = seen.page.evaluate("navigator.clipboard.readText()")
    seen.page.get_by_role("button", name="Copied").wait_for(state="detached")
    return str(text)


def test_names_that_contain_html_quotes_and_ends_of_scripts_appear_as_text(
    browser: Browser, hostile_report: Path
) -> None:
    with visit(browser, hostile_report) as opened:
        _drawn(opened)
        assert opened.page.locator("h1").inner_text() == HOSTILE
        assert HOSTILE in (opened.page.locator("#choices").text_content() or "")
        assert HOSTILE in (opened.page.locator("main").text_content() or "")
        assert opened.page.title().startswith(HOSTILE)
        assert opened.page.locator("img").count() == 0
        assert opened.complaints == []
        assert opened.outward == []


def test_a_chart_can_be_saved_from_the_page(seen: Visit) -> None:
    chart = seen.page.locator("[data-chart=throughput]")
    chart.locator("summary").click()
    with seen.page.expect_download() as saved:
        chart.get_by_role("link", name="Save as SVG").click()
    text = Path(saved.value.path()).read_text()
    assert saved.value.suggested_filename == "throughput.svg"
    assert text.startswith("<svg")
    assert "allreduce" in text


def test_hovering_tells_exact_values(seen: Visit) -> None:
    chart = seen.page.locator("[data-chart=throughput]")
    chart.locator(".mark-symbol.role-mark path").first.hover()
    told = seen.page.locator("#vg-tooltip-element.visible")
    told.wait_for()
    assert "images/s" in told.inner_text()
    assert "weak scaling" in told.inner_text() or "batch 16" in told.inner_text()


def test_everything_is_reached_with_the_keyboard(seen: Visit) -> None:
    asked = seen.page.locator("#choices input, th button, .bar button").count()
    reached = set()
    for _ in range(3 * asked):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    wanted = seen.page.evaluate(
        "[...document.querySelectorAll('#choices input, th button, .bar button')]"
        ".map(e => [...document.querySelectorAll('*')].indexOf(e))"
    )
    assert set(wanted) <= reached


def test_the_printed_page_has_every_section_in_order(seen: Visit) -> None:
    titles = seen.page.locator("h2").all_inner_texts()
    printed = seen.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") >= 3
    seen.page.emulate_media(media="print")
    tops = seen.page.locator("h2").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
    assert tops == sorted(tops)
    assert len(tops) == len(titles) >= 5
    assert seen.page.locator("#choices").is_hidden()
    assert seen.page.locator(".bar button:visible").count() == 0
    cut = seen.page.locator(".scroll").evaluate_all(
        "all => all.filter(e => e.scrollHeight > e.clientHeight + 2).length"
    )
    assert cut == 0, "a table is cut where it scrolls on the screen"

"""The page and the files beside it: self-contained, names are text, and nothing of others is overwritten."""

import json
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report.made import changed, describe, large, study, usual

from paceline.errors import OutputError
from paceline.report.page import page, sections
from paceline.report.results import read
from paceline.report.tables import PageTable, number, to_markdown, word
from paceline.report.write import write

HOSTILE = """<img src=x onerror=alert(1)> & "two" 'quotes' </script><script>alert(2)</script><!-- `x` | y"""


class Seen(HTMLParser):
    """The elements of a page, and the text in its body."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.text += data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study(tmp_path_factory.mktemp("made"), usual())


@pytest.fixture(scope="module")
def text(made: Path) -> str:
    results = read([made])
    return page(results, sections(results))


def content_of(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    content: dict[str, object] = json.loads(found[1])
    return content


def test_the_page_fetches_nothing(text: str) -> None:
    elements = Seen(text).elements
    assert not [(tag, a) for tag, a in elements if tag in ("link", "img", "iframe") or "src" in a or "href" in a]
    (policy,) = (a["content"] for tag, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_every_chart_has_its_place_and_its_data(text: str) -> None:
    content = content_of(text)
    drawn = content["charts"]
    datasets = content["datasets"]
    assert isinstance(drawn, dict)
    assert isinstance(datasets, dict)
    places = [a["data-chart"] for tag, a in Seen(text).elements if "data-chart" in a]
    assert places == list(drawn)
    assert {name for chart in drawn.values() for name in chart["data"]} == set(datasets)
    assert all(datasets.values())


def test_the_choice_has_a_box_for_every_value(text: str) -> None:
    boxes = [a for tag, a in Seen(text).elements if tag == "input"]
    assert [(box["type"], box["name"], box["value"]) for box in boxes] == [
        ("checkbox", "strategy", name) for name in ("allreduce", "independent", "ps")
    ]
    assert all("checked" in box for box in boxes)


def test_names_appear_as_text(tmp_path: Path) -> None:
    folder = study(tmp_path, usual())
    describe(folder, name=HOSTILE, runs=6)
    for number_of_run in (2, 3):
        data = {"source": HOSTILE, "generated": False}
        changed(folder / "runs" / f"run{number_of_run}", spec={"feed": HOSTILE}, workload={"data": data})
    for number_of_run in range(6):
        changed(folder / "runs" / f"run{number_of_run}", environment={"host": HOSTILE}, warnings=[HOSTILE])
    results = read([folder], anyway=True)
    answered = sections(results)
    text = page(results, answered)
    seen = Seen(text)
    assert [tag for tag, _ in seen.elements if tag in ("img", "script")] == ["script"] * 3
    assert seen.text.count(HOSTILE) >= 4
    assert HOSTILE in [a.get("value") for tag, a in seen.elements if tag == "input"]
    assert HOSTILE in json.dumps(content_of(text)["lines"], ensure_ascii=False).replace('\\"', '"')
    for answer in answered:
        for table in answer.tables:
            assert "<img" not in to_markdown(table)


def test_markdown_keeps_a_table_whole_whatever_is_in_it() -> None:
    table = PageTable(
        name="t", title="A *title*", headings=("what", "n"), rows=((word("a|b <i>\n`c`"), number(1234, "{:,}".format)),)
    )
    assert to_markdown(table) == "A \\*title\\*\n\n| what | n |\n| --- | ---: |\n| a\\|b &lt;i&gt; \\`c\\` | 1,234 |"


def test_the_command_writes_the_page_markdown_and_pictures(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "report.html"
    command = [sys.executable, "-m", "paceline", "report", str(made), "--out", str(out)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert finished.stdout.splitlines() == [str(out), str(out.with_suffix(".md")), str(out.with_name("report_files"))]
    markdown = out.with_suffix(".md").read_text()
    named = re.findall(r"\]\(report_files/(.+?)\.svg\)", markdown)
    files = {file.name for file in out.with_name("report_files").iterdir()}
    assert files == {f"{name}{kind}" for name in named for kind in (".svg", ".png")}
    assert set(named) == set(content_of(out.read_text())["charts"])  # type: ignore[call-overload]
    for file in out.with_name("report_files").iterdir():
        beginning = file.read_bytes()[:8]
        assert beginning == b"\x89PNG\r\n\x1a\n" if file.suffix == ".png" else beginning.startswith(b"<svg")
    assert "ideal" in out.with_name("report_files").joinpath("throughput.svg").read_text()


def test_a_report_replaces_a_report_and_nothing_else(made: Path, tmp_path: Path) -> None:
    results = read([made])
    out = tmp_path / "report.html"
    write(results, sections(results)[:1], out)
    first = out.read_text()
    write(results, sections(results)[-1:], out)
    assert out.read_text() != first
    out.with_suffix(".md").write_text("my notes")
    with pytest.raises(OutputError, match="not a Paceline report"):
        write(results, [], out)
    assert out.with_suffix(".md").read_text() == "my notes"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["report", "report.pdf"])
def test_a_page_is_called_html(made: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match=r"end it in \.html"):
        write(read([made]), [], tmp_path / name)


def test_a_place_that_cannot_be_written_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write(read([made]), [], tmp_path / "file" / "report.html")


def test_two_thousand_runs_make_a_page_of_less_than_ten_megabytes(tmp_path: Path) -> None:
    folder = large(tmp_path, settings=999)
    results = read([folder])
    text = page(results, sections(results))
    assert sum(len(row.runs) for row in results.rows) == 2000
    assert len(text.encode()) < 10e6


@pytest.mark.prove
def test_two_thousand_runs_are_reported_with_pictures_within_twenty_seconds(tmp_path: Path) -> None:
    folder = large(tmp_path / "study", settings=999)
    before = time.monotonic()
    command = [sys.executable, "-m", "paceline", "report", str(folder), "--out", str(tmp_path / "report.html")]
    subprocess.run(command, capture_output=True, timeout=100, check=True)
    assert time.monotonic() - before < 20

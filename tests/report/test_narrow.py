"""Pages of every kind on a telephone and on a desk: nothing is cut, in a real browser."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from explain.situations import Situation
from playwright.sync_api import Browser
from report import made
from report.browser import chromium, visit

from paceline.report.page import page, sections
from paceline.report.published import against
from paceline.report.results import read

LONG = "allreduce:bucket=25MB,overlap=off"
LABELS = {"run1": "a variant with quite a long name, as studies give them", "run2": "averylongname" * 5}

_CUT = """
() => {
  const width = document.documentElement.clientWidth;
  const out = (box, [left, right]) => box.width > 0 && (box.left < left - 1 || box.right > right + 1);
  const cut = [];
  if (document.documentElement.scrollWidth > width) cut.push("the page scrolls sideways");
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest(".scroll, svg, script, style, .vega-embed details") || element.hidden) continue;
    if (out(element.getBoundingClientRect(), [0, width])) cut.push(element.outerHTML.slice(0, 120));
  }
  for (const drawn of document.querySelectorAll(".chart svg.marks")) {
    const { left, right } = drawn.getBoundingClientRect();
    for (const text of drawn.querySelectorAll("text"))
      if (out(text.getBoundingClientRect(), [left, right])) cut.push(`in a chart: ${text.textContent}`);
  }
  return cut;
}
"""


def _several() -> list[Situation]:
    strategies = ("allreduce", "ps", LONG)
    return [made.baseline(), *(made.together(n, strategy=s, buckets=()) for s in strategies for n in (2, 4, 8))]


def _certain(folder: Path) -> Path:
    return made.study(folder, _several())


def _uncertain(folder: Path) -> Path:
    made.study(folder, _several(), series=False)
    for run in (folder / "runs").iterdir():
        made.changed(run, throughput={"low": 2e-11, "high": 2e10})
    return folder


def _strong(folder: Path) -> Path:
    alone, *others = [made.baseline(batch=8), *(made.together(n, samples=8 // n) for n in (2, 4))]
    made.study(folder, [alone, *others], series=False)
    made.describe(folder, name="strong", runs=3, scaling="strong")
    return folder


def _one(folder: Path) -> Path:
    return made.study(folder, [made.together(2)])


def _labelled(folder: Path) -> Path:
    made.study(folder, [made.together(2), made.together(2, strategy="ps", buckets=())])
    runs = sorted((folder / "runs").iterdir())
    for run, name in zip(runs, LABELS, strict=True):
        run.rename(run.with_name(f"{name}-turn0"))
    made.describe(folder, name="labelled", runs=2, labels=LABELS)
    return folder


KINDS: Sequence[Callable[[Path], Path]] = (_certain, _uncertain, _strong, _one, _labelled)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_cut_at_either_width(browser: Browser, tmp_path: Path, kind: Callable[[Path], Path]) -> None:
    results = read([kind(tmp_path / "study")])
    more = [against.section(results, against.find("seed-000"))] if kind is _certain else []
    file = tmp_path / "report.html"
    file.write_text(page(results, sections(results, more)))
    for width in (390, 1280):
        with visit(browser, file, width=width) as opened:
            opened.page.wait_for_selector("html[data-ready=true]", state="attached")
            opened.page.add_style_tag(content="section { content-visibility: visible !important }")
            assert opened.page.evaluate(_CUT) == []
            assert opened.complaints == []

"""Write the report's files: the page, Markdown, and every chart as SVG and PNG."""

from collections.abc import Sequence
from pathlib import Path

from paceline.errors import OutputError
from paceline.files import write_whole
from paceline.report.headline import verdict
from paceline.report.page import GENERATOR, page
from paceline.report.pictures import png, svg
from paceline.report.results import Results
from paceline.report.section import Section
from paceline.report.tables import plain, to_markdown

_BEGINNING = 2_000
"""The generator's name appears within this many characters of a report."""


def write(results: Results, answered: Sequence[Section], out: Path) -> list[Path]:
    """Write all files and return their paths; replace an earlier report, but no other file."""
    markdown, pictures = out.with_suffix(".md"), out.with_name(f"{out.stem}_files")
    _check(out, markdown)
    charts = [chart for section in answered for chart in section.charts]
    try:
        pictures.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            drawn = svg(chart)
            write_whole(pictures / f"{chart.name}.svg", drawn)
            write_whole(pictures / f"{chart.name}.png", png(drawn))
        write_whole(markdown, _markdown(results, answered, pictures.name))
        write_whole(out, page(results, answered))
    except OSError as error:
        raise OutputError(f"--out {out} cannot be written ({error.strerror}): choose another path.") from error
    return [out, markdown, pictures]


def _check(out: Path, markdown: Path) -> None:
    if out.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"--out {out} is not an HTML file: end it in .html.")
    for file in (out, markdown):
        if file.is_dir():
            raise OutputError(f"--out {out}: {file} is a folder: choose another name.")
        if file.exists() and GENERATOR not in file.read_text(errors="replace")[:_BEGINNING]:
            raise OutputError(f"--out {out}: {file} exists and is not a Paceline report: choose another name.")


def _markdown(results: Results, answered: Sequence[Section], pictures: str) -> str:
    """The same sections as the page, as Markdown."""
    first, second = verdict(results)
    parts = [f"<!-- {GENERATOR} -->", f"# {plain(results.title)}", f"**{plain(first)}** {plain(second)}"]
    for section in answered:
        parts.append(f"## {plain(section.title)}")
        parts.extend(map(plain, section.words))
        for chart in section.charts:
            parts.append(f"![{plain(chart.title)}]({pictures}/{chart.name}.svg)")
            parts.append(f"*{plain(chart.title)}. {plain(chart.subtitle)}.*")
        parts.extend(map(to_markdown, section.tables))
    return "\n\n".join(parts) + "\n"

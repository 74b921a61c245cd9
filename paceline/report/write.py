"""The report's files: the page, Markdown beside it, and every chart as SVG and PNG."""

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
"""Characters in which a page says who made it."""


def write(results: Results, answered: Sequence[Section], out: Path) -> list[Path]:
    """Write everything and say what; an earlier report is replaced, any other file is not."""
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
        raise OutputError(f"--out {out} cannot be written ({error.strerror}): choose another place.") from error
    return [out, markdown, pictures]


def _check(out: Path, markdown: Path) -> None:
    if out.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"--out {out} is not the name of a page: end it in .html.")
    for file in (out, markdown):
        if file.is_dir():
            raise OutputError(f"--out {out}: {file} is a folder. Choose another name.")
        if file.exists() and GENERATOR not in file.read_text(errors="replace")[:_BEGINNING]:
            raise OutputError(f"--out {out}: {file} exists and is no report of Paceline. Choose another name.")


def _markdown(results: Results, answered: Sequence[Section], pictures: str) -> str:
    """The same sections in the same order."""
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

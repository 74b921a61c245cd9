"""One self-contained HTML page: all sections in order, with scripts, styles and data inside it."""

import functools
import hashlib
import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode

from paceline import __version__
from paceline.report import charts
from paceline.report.arrivals import arrivals
from paceline.report.gap import gap_to_ideal
from paceline.report.headline import about, headline, verdict
from paceline.report.learning import loss
from paceline.report.measured import measured
from paceline.report.pictures import VEGA_LITE
from paceline.report.projection import projection
from paceline.report.results import Results
from paceline.report.scaling import speedup_and_efficiency, throughput
from paceline.report.section import Chart, Section
from paceline.report.shown import choices, chosen_first
from paceline.report.step import step
from paceline.report.tables import PageTable, TableCell
from paceline.report.utilisation import utilisation

SECTIONS: tuple[Callable[[Results], Section | None], ...] = (
    headline,
    throughput,
    speedup_and_efficiency,
    gap_to_ideal,
    projection,
    loss,
    arrivals,
    step,
    utilisation,
    measured,
)
"""The sections in order; a section that the records cannot fill is left out."""

GENERATOR = "Paceline"


def sections(results: Results, more: Sequence[Section] = ()) -> list[Section]:
    """All sections; `more` comes before the last one, which describes what was measured."""
    with debug_mode(False):  # Altair would check every part of every chart while it is built; tests do
        answered = [section for answer in SECTIONS if (section := answer(results)) is not None]
    return [*answered[:-1], *more, *answered[-1:]]


def page(results: Results, answered: Sequence[Section]) -> str:
    """The page as HTML; it loads nothing from elsewhere."""
    specs, datasets = _drawn([chart for section in answered for chart in section.charts])
    content = {
        "charts": specs,
        "datasets": datasets,
        "themes": {"light": charts.theme(dark=False), "dark": charts.theme(dark=True)},
        "shown": charts.SHOWN,
        "columns": charts.COLUMNS,
        "characters": charts.CHARACTERS,
        "rowCharacters": charts.ROW_CHARACTERS,
        "lines": [{"line": line, "values": values} for line, values in _values(results).items()],
    }
    numbers = {line: number for number, line in enumerate(results.lines)}
    body = "".join(_section(section, numbers) for section in answered)
    return "".join(
        (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_HEAD}\n',
            f'<meta name="generator" content="{GENERATOR} {__version__}">\n',
            f"<title>{_text(results.title)} · Paceline</title>\n",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n{_header(results)}",
            f"<main>\n{body}</main>\n",
            f'<script type="application/json" id="content">{_json(content)}</script>\n',
            f"<script>{_vega()}</script>\n",
            f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n",
        )
    )


# The page may load nothing, whatever a name in the data contains; Vega compiles its expressions, hence eval.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"
_HEAD = (
    f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">'
)


def _drawn(drawn: Sequence[Chart]) -> tuple[charts.Datum, charts.Datum]:
    """Charts as Vega-Lite, and their data; charts share equal data."""
    datasets: charts.Datum = {}
    specs: charts.Datum = {}
    for chart in drawn:
        names: dict[str, str] = {}
        spec = _by_name(chart.specification, names)
        datasets |= {name: json.loads(text) for name, text in names.items() if name not in datasets}
        titles = {"title": chart.title, "subtitle": chart.subtitle, "lines": chart.lines}
        specs[chart.name] = {"spec": spec, "data": list(names), **titles}
    return specs, datasets


def _by_name(part: Any, names: dict[str, str]) -> Any:
    """Replace every text of data by a name; equal texts get equal names."""
    if isinstance(part, list):
        return [_by_name(item, names) for item in part]
    if not isinstance(part, dict):
        return part
    text = part.get("values")
    if isinstance(text, str) and "format" in part:
        name = f"data-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        names[name] = text
        return {"name": name}
    return {key: _by_name(item, names) for key, item in part.items()}


def _values(results: Results) -> dict[str, Mapping[str, str]]:
    return {row.line: row.values for row in results.rows}


def _header(results: Results) -> str:
    first, second = verdict(results)
    return (
        f'<header>\n<h1>{_text(results.title)}</h1>\n<p class="verdict">{_text(first)}</p>\n'
        f'<p class="why">{_text(second)}</p>\n<p class="about">{_text(about(results))}</p>\n'
        f"{_choices(results)}</header>\n"
    )


def _choices(results: Results) -> str:
    """Checkboxes for every value of every dimension; they apply to the whole page."""
    offered, ticked = choices(results), chosen_first(results)
    if all(len(values) == 1 for values in offered.values()):
        return ""
    parts = ['<form id="choices" aria-label="Which settings to show">\n']
    for dimension in results.dimensions:
        parts.append(f"<fieldset><legend>{_text(dimension.heading)}</legend>\n")
        for value in offered[dimension.name]:
            checked = " checked" if value in ticked[dimension.name] else ""
            parts.append(
                f'<label><input type="checkbox" name="{_text(dimension.name)}" value="{_text(value)}"{checked}>'
                f" {_text(value)}</label>\n"
            )
        parts.append("</fieldset>\n")
    parts.append('<output id="shown"></output>\n</form>\n')
    return "".join(parts)


def _section(section: Section, numbers: Mapping[str, int]) -> str:
    parts = [f'<section id="{_text(section.name)}">\n<h2>{_text(section.title)}</h2>\n']
    parts.extend(f"<p>{_text(words)}</p>\n" for words in section.words)
    if section.charts:
        figures = "".join(_figure(chart, numbers) for chart in section.charts)
        parts.append(f'<div class="charts">\n{figures}</div>\n')
    parts.extend(_table(table, numbers) for table in section.tables)
    parts.append("</section>\n")
    return "".join(parts)


def _figure(chart: Chart, numbers: Mapping[str, int]) -> str:
    label = _text(f"{chart.title}. {chart.subtitle}")
    line = "" if chart.line is None else _of(chart.line, numbers)
    place = f'<div class="chart" data-chart="{_text(chart.name)}" role="figure" aria-label="{label}"></div>'
    return f"<figure{line}>{place}</figure>\n"


def _table(table: PageTable, numbers: Mapping[str, int]) -> str:
    headings = "".join(
        f'<th scope="col" aria-sort="none"{" class=number" if numeric else ""}>'
        f'<button type="button">{_text(heading) or "setting"}</button></th>'
        for heading, numeric in zip(table.headings, table.numeric, strict=True)
    )
    body = "".join(_row(table, index, numbers) for index in range(len(table.rows)))
    notes = "".join(f"<p class=note>{_text(note)}</p>\n" for note in table.notes)
    return (
        f'<div class="table" data-table="{_text(table.name)}">\n<div class="bar"><span>{_text(table.title)}</span>'
        '<button type="button" data-copy="csv">Copy as CSV</button>'
        '<button type="button" data-copy="markdown">Copy as Markdown</button></div>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(table.title)}"><table>\n'
        f"<thead><tr>{headings}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n{notes}</div>\n"
    )


def _of(line: str, numbers: Mapping[str, int]) -> str:
    """The attribute that ties an element to its curve, so that both are shown or hidden together."""
    return f" data-line={numbers[line]}"


def _row(table: PageTable, index: int, numbers: Mapping[str, int]) -> str:
    line = _of(table.lines[index], numbers) if table.lines else ""
    cells = zip(table.rows[index], table.numeric, strict=True)
    return f"<tr{line}>{''.join(_cell(cell, numeric=numeric) for cell, numeric in cells)}</tr>\n"


_SHORT = 24
"""Texts up to this many characters are not wrapped."""


def _cell(cell: TableCell, *, numeric: bool) -> str:
    kind = " class=number" if numeric else " class=short" if len(cell.text) <= _SHORT else ""
    return f"<td{kind}{''.join(_attributes(cell))}>{_text(cell.text)}</td>"


def _attributes(cell: TableCell) -> Iterator[str]:
    """Attributes with the exact values, for sorting and for copying."""
    kept = {"value": cell.value, "low": cell.low, "high": cell.high}
    for name, value in kept.items():
        if value is not None and value != cell.text:
            yield f' data-{name}="{_text(str(value))}"'


def _text(text: str) -> str:
    return html.escape(text, quote=True)


def _json(content: Any) -> str:
    """JSON that cannot close the script element around it."""
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@functools.cache
def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script."""
    source = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", VEGA_LITE)
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return resources.files("paceline.report").joinpath("assets", name).read_text()

"""`paceline references`: show published tables, and audit any table."""

import json as json_format
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.errors import OutputError, SpecError

if TYPE_CHECKING:
    from rich.console import Console

    from paceline.references.base import Reference
    from paceline.references.findings import Finding
    from paceline.references.layout import PublishedTable

app = typer.Typer(
    help="Show published tables, and audit any table.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)

_COLOURS = {"fault": "red", "warning": "yellow", "note": "cyan"}
_FEW_SERIES = 2

# Everything else is imported in the functions, so that --help answers at once.


@app.command("list")
def list_all(json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False) -> None:
    """List the references, a line each."""
    from paceline import references

    loaded = [references.load(name) for name in references.names()]
    if json:
        _print_json({"references": [{"name": r.name, "title": r.title, "source": r.source} for r in loaded]})
        return
    width = max(len(reference.name) for reference in loaded)
    for reference in loaded:
        print(f"{reference.name:{width}}  {reference.title}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A reference that `paceline references list` shows.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Show a reference as published, where it comes from, and what the audit finds in it.

    Examples:

      paceline references show seed-002

      paceline references show dgx1-p100 --json
    """
    from paceline import references
    from paceline.references.audit import audit

    reference = references.load(name)
    findings = audit(reference)
    if json:
        _print_json({**_as_data(reference), "findings": _findings_as_data(findings)})
        return
    console = _console()
    _print_reference(reference, console)
    console.print("[bold]What the audit finds[/bold]")
    _print_findings(reference, findings, console)


@app.command()
def check(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME|FILE.csv|STUDY|RECORD]…", help="What to audit (default: all references)."),
    ] = None,
    projection: Annotated[
        bool, typer.Option("--projection", help="Hide the largest rows and project them from the rest instead.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option(help="With --projection: write the result to this Markdown file.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="FIELD=HEADING,…", help="What columns of your table mean: throughput=img/s.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Audit tables, published or your own: are the figures consistent, and are the comparisons fair?

    The exit code is 0 when no fault was found, and 1 otherwise.

    Examples:

      paceline references check

      paceline references check seed-004 results.csv

      paceline references check runs/demo --json

      paceline references check --projection
    """
    if projection or page is not None:
        _check_projection(tables, page, json=json)
        return
    from paceline import references
    from paceline.references.audit import audit
    from paceline.references.columns import parse_columns

    chosen = parse_columns(columns)
    audited = [(table, audit(table)) for table in (_find(name, chosen) for name in tables or references.names())]
    count = Counter(finding.severity for _, findings in audited for finding in findings)
    if json:
        rows = [{**_head(table), "findings": _findings_as_data(findings)} for table, findings in audited]
        _print_json({"tables": rows, "faults": count["fault"], "warnings": count["warning"], "notes": count["note"]})
    else:
        console = _console()
        for table, findings in audited:
            console.print(f"[bold]{_safe(table.name)}[/bold]  {_safe(table.title)}")
            for text in (*_columns(table), *table.notes) if not table.columns else ():  # a reference's are for `show`
                console.print(f"  {_safe(text)}")
            _print_findings(table, findings, console)
        console.print(f"{_counted(count)} in {_plural(len(audited), 'table')}.")
    if count["fault"]:
        raise typer.Exit(1)


def _check_projection(tables: list[str] | None, page: Path | None, *, json: bool) -> None:
    """Show how well hidden rows are projected, over all available tables."""
    if tables:
        raise SpecError(f"--projection takes no tables ({', '.join(tables)}): it uses all available ones.")
    from paceline.files import write_whole
    from paceline.project.laws import accuracy
    from paceline.project.laws import check as projection
    from paceline.project.laws.heldout import cases
    from paceline.project.laws.left_out import left_out

    hidden = list(cases())
    checked = [projection.check(case) for case in hidden]
    if json:
        _print_json({"cases": [projection.data(one) for one in checked]})
        return
    text = accuracy.page(checked, left_out(hidden))
    if page is None:
        print(text)
        return
    try:
        write_whole(page, text)
    except OSError as error:
        raise OutputError(f"--page {page} cannot be written ({error.strerror}): choose another file.") from error
    print(page)


def _columns(table: "Reference") -> "Iterator[str]":
    """What was read of a user's table, and what was not."""
    from paceline.references.words import about_columns

    if table.used:
        yield about_columns(table.used, table.unused)


def _find(what: str, chosen: "Mapping[str, str]") -> "Reference":
    """The table that a name or a path means; names of references come first."""
    from paceline import references
    from paceline.grammar import choose
    from paceline.references import records, spreadsheet

    path = Path(what)
    if what in references.names():
        return references.load(what)
    if path.is_dir() or path.suffix == ".json":
        from paceline.measure.runs import find

        found = find([path])
        return records.from_records(what, [run.record for run in found.runs], found.notes)
    if path.exists() or path.suffix in (".csv", ".tsv", ".txt", ".md"):
        return spreadsheet.read(path, chosen)
    try:
        return references.load(choose(what, references.names(), "reference"))
    except SpecError as error:
        raise SpecError(f"{error} Or give a CSV file, a study's folder or a record.") from None


def _print_reference(reference: "Reference", console: "Console") -> None:
    from rich.table import Table as Grid

    from paceline.references.layout import tables

    console.print(f"[bold]{_safe(reference.name)}[/bold]  {_safe(reference.title)}")
    facts = Grid(show_header=False, box=None, pad_edge=False)
    for name, text in _facts(reference).items():
        facts.add_row(name, _safe(text))
    console.print(facts)
    for table in tables(reference):
        _print_table(table, console)
    meanings = Grid(show_header=False, box=None, pad_edge=False)
    for column in reference.columns:
        meanings.add_row(_safe(column.heading), _safe(column.meaning))
    console.print(meanings)
    for text in reference.notes:
        console.print(f"note: {_safe(text)}")
    console.print()


def _facts(reference: "Reference") -> dict[str, str]:
    """Facts about the reference beside its figures."""
    series = reference.series
    batches = sorted({row.batch for s in series for row in s.rows if row.batch is not None})
    windows = {s.method.window_includes for s in series}
    included = sorted({what for window in windows for what in window or ()})
    timed = f"with {', '.join(included)}" if included else "steps only" if None not in windows else "not stated"
    return {
        "source": reference.source,
        "hardware": reference.hardware,
        "workload": reference.workload,
        "scaling": ", ".join(sorted({s.scaling for s in series if s.scaling})) or "not stated",
        "batch": f"{', '.join(map(str, batches))} per worker" if batches else "not stated",
        "baseline": reference.baseline,
        "timed": timed,
    }


def _print_table(table: "PublishedTable", console: "Console") -> None:
    """Print a table; a file gets its full width."""
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table as Grid

    grid = Grid(title=_safe(table.title), title_justify="left", box=box.ROUNDED)
    for heading in table.headings:
        grid.add_column(_safe(heading), justify="right")
    for line in table.lines:
        grid.add_row(*map(_safe, line))
    if not console.is_terminal:
        width = Measurement.get(console, console.options.update(max_width=10_000), grid).maximum
        console.width = max(console.width, width)
    console.print(grid)


def _print_findings(table: "Reference", findings: "Sequence[Finding]", console: "Console") -> None:
    if not findings:
        console.print("  nothing found")
    for finding in findings:
        where = _where(table, finding)
        colour = _COLOURS[finding.severity]
        console.print(f"  [{colour}]{finding.severity}[/{colour}] · {finding.check}{where}")
        console.print(f"    {_safe(finding.sentence)}")


def _where(table: "Reference", finding: "Finding") -> str:
    """Which series a finding is about: empty for all of them, a count where there are many."""
    if len(finding.series) == len(table.series):
        return ""
    if len(finding.series) > _FEW_SERIES:
        return f" · {len(finding.series)} of {len(table.series)} series"
    return f" · {_safe('; '.join(finding.series))}"


def _counted(count: "Counter[Any]") -> str:
    return ", ".join(_plural(count[severity], severity) for severity in _COLOURS)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _console() -> "Console":
    from paceline.cli.terminal import console

    return console(markup=True, soft_wrap=True)


def _safe(text: str) -> str:
    """Escape brackets, which Rich would read as markup."""
    from rich.markup import escape

    return escape(text)


def _head(table: "Reference") -> dict[str, Any]:
    head = {"name": table.name, "title": table.title, "source": table.source, "notes": table.notes}
    return {**head, "columns": {"used": table.used, "not_used": table.unused}} if table.used else head


def _as_data(reference: "Reference") -> dict[str, Any]:
    """All rows, with speed-up and efficiency computed by one definition."""
    data = asdict(reference)
    for series, told in zip(reference.series, data["series"], strict=True):
        for row, cells in zip(series.rows, told["rows"], strict=True):
            cells["derived"] = {"speedup": series.speedup(row), "efficiency": series.efficiency(row)}
    return data


def _findings_as_data(findings: "Sequence[Finding]") -> list[dict[str, Any]]:
    return [
        {
            **asdict(finding),
            "rows": [{k: v for k, v in asdict(row).items() if v not in (None, ())} for row in finding.rows],
        }
        for finding in findings
    ]


def _print_json(content: Any) -> None:
    print(json_format.dumps(content, indent=2, allow_nan=False))

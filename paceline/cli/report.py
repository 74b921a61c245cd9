"""`paceline report`: write one page of a study's results, with Markdown and pictures next to it."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="STUDY…", help="Study folders, run folders or records.")],
    out: Annotated[Path, typer.Option(help="The page; Markdown and pictures are written next to it.")] = Path(
        "report.html"
    ),
    style: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add tables in a published layout: seed-000 to seed-004.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.csv", help="Draw a reference's speed-up and efficiency next to the measured ones."
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Show records together even if they are of different machines.")
    ] = False,
) -> None:
    """Write one page that shows how a study's settings scale, why, and what was measured. The page needs no network.

    Examples:

      paceline report runs/demo

      paceline report runs/demo --out demo.html

      paceline report monday tuesday --out both.html

      paceline report runs/seed-002 --style seed-002 --against seed-002
    """
    # Imported here, so that --help answers at once.
    from paceline.report.page import sections
    from paceline.report.published import against as comparison
    from paceline.report.published import styles
    from paceline.report.results import read
    from paceline.report.write import write

    layout = styles.named(style) if style is not None else None
    reference = comparison.find(against) if against is not None else None
    results = read(paths, anyway=anyway)
    more = [comparison.section(results, reference)] if reference is not None else []
    more += [styles.section(layout, [row.scaling for row in results.rows])] if layout is not None else []
    for file in write(results, sections(results, more), out):
        print(file)

"""`paceline explain`: explain where the time went, and suggest what to do."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from paceline.errors import SpecError


def explain(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Records, run folders or study folders.")],
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Chrome trace of one run, for ui.perfetto.dev.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(metavar="A-B", help="Steps in the trace (default: the first timed ones and a sample).")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare records even if they are of different machines.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Explain where the time of a run went, or how far from ideal a study's settings are and why.

    Examples:

      paceline explain runs/20260101-120000-vae-allreduce-2w

      paceline explain runs/demo

      paceline explain one/record.json two/record.json --json

      paceline explain runs/… --trace trace.json --steps 20-29
    """
    # Imported here, so that --help answers at once.
    from paceline.breakdown.trace import parse_steps, write_trace
    from paceline.cli.terminal import console
    from paceline.explain.data import as_data
    from paceline.explain.tables import print_account
    from paceline.explain.verdict import account
    from paceline.measure.runs import find

    chosen = parse_steps(steps) if steps is not None else None
    if chosen is not None and trace is None:
        raise SpecError(f"--steps {steps} needs a trace: add --trace FILE.")
    found = find(paths)
    if trace is not None and len(found.runs) > 1:
        raise SpecError(f"--trace shows one run, but these paths hold {len(found.runs)}: give one record.")
    explained = account(found, anyway=anyway)
    if json:
        print(json_format.dumps(as_data(explained), indent=2, allow_nan=False))
    else:
        print_account(explained, console(markup=True, soft_wrap=True))
    if trace is not None:
        written = write_trace(found.runs[0], trace, chosen)
        console(stderr=True, soft_wrap=True).print(f"{written} steps in {trace}: open it at https://ui.perfetto.dev.")

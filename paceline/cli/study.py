"""`paceline study`: a grid of runs, from a file, a name or flags to a table."""

import json as jsons
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.flags import repeated, with_flags
from paceline.errors import OutputError, SpecError
from paceline.network import Site
from paceline.settings import Role
from paceline.spec import SETTINGS, with_role
from paceline.testbed.hosts import Testbed
from paceline.units import human_seconds

if TYPE_CHECKING:
    from paceline.studies.definition import Study
    from paceline.studies.grid import Grid
    from paceline.studies.store import Contents, Store
    from paceline.studies.table import StudyRow, StudyTable

_MANY = 1_000
_REASONS = 10
_NOT_KNOWN = (
    "not known, because runs are as long as their steps or epochs take, and these could not be timed. Start the study: "
    "its first run tells; stopped with Ctrl-C, the same command goes on."
)

_EXAMPLES = """
Examples:

  paceline study demo

  paceline study seed-002 --dry-run

  paceline study vae --workers 1,2 --strategy allreduce --strategy ps --batch 32 --seconds 5s --repeats 2

  paceline study my-study.toml --out results --csv results.csv
"""


@with_flags({name: repeated(SETTINGS[name]) for name in with_role(Role.AXIS) if name != "workload"})
def study(
    context: typer.Context,
    what: Annotated[str | None, typer.Argument(help="A TOML file, the name of a ready study, or a workload.")] = None,
    *,
    repeats: Annotated[int | None, typer.Option(help="Runs of every combination, taken in turns.")] = None,
    scaling: Annotated[str | None, typer.Option(help="weak: batch per worker; strong: of all together.")] = None,
    equal: Annotated[str | None, typer.Option(help="What all runs have as many of: samples or updates.")] = None,
    samples: Annotated[int | None, typer.Option(help="With --equal samples: how many.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="More columns: val_loss,time,utilisation,sent, a metric …")
    ] = None,
    per_epoch: Annotated[bool | None, typer.Option("--per-epoch", help="A second table, epoch by epoch.")] = None,
    out: Annotated[Path | None, typer.Option(help="The study's folder (default: runs/NAME).")] = None,
    full: Annotated[bool, typer.Option("--full", help="The sizes of the file's \\[full] table.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the grid and the expected time.")] = False,
    skip_impossible: Annotated[
        bool, typer.Option("--skip-impossible", help="Leave out what cannot run here; the table says so.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help=f"Start even more than {_MANY:,} runs.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the table to a CSV file as well.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead.")] = False,
    **flags: Any,
) -> None:
    """Run a grid of runs in turns and show how they scale. Stopped or killed, the same command resumes it."""
    # Imported here, so that --help answers at once.
    from paceline.engines.local import LocalEngine
    from paceline.studies.schedule import carry_out
    from paceline.studies.store import Store

    engine = LocalEngine(context.find_object(Testbed))
    own = {"repeats": repeats, "scaling": scaling, "equal": equal, "samples": samples, "per_epoch": per_epoch}
    asked = _asked(what, _given(own, columns, flags), engine.site, full=full)
    if csv is not None:
        _check_writable(csv)
    if asked.runs > _MANY and not yes:
        _stop_large(asked, dry_run=dry_run, as_json=json)
        return
    grid = _grid(asked, engine.site)
    store = Store(out if out is not None else _default_folder(asked, full=full))
    _check_folder(store, grid, skip=skip_impossible)
    contents = store.read(grid.in_turns())
    if dry_run:
        _print_grid(grid, contents, as_json=json)
    _refuse_impossible(grid, skip=skip_impossible)
    if dry_run:
        return
    if len(contents.records) < len(grid.in_turns()):
        from rich.console import Console

        from paceline.cli.study_progress import StudyProgress

        contents = carry_out(grid, store, engine, StudyProgress(Console(stderr=True), asked.repeats))
    else:
        _say(f"All {len(contents.records)} runs are there already; to measure anew, choose another --out.")
    _show(grid, contents, store, csv, as_json=json)
    if contents.failures:
        sys.exit(1)


study.__doc__ = f"{study.__doc__}\n{_EXAMPLES}"


def _say(text: str) -> None:
    print(f"paceline: {text}", file=sys.stderr)


def _given(own: dict[str, Any], columns: list[str] | None, flags: dict[str, Any]) -> dict[str, Any]:
    """What was typed, by the names that TOML files use."""
    from paceline.studies.definition import parse_values

    given = {name: value for name, value in own.items() if value is not None}
    if columns:
        given["columns"] = [name.strip() for text in columns for name in text.split(",") if name.strip()]
    return given | {name: parse_values(name, texts) for name, texts in flags.items() if texts}


def _asked(what: str | None, flags: dict[str, Any], site: Site, *, full: bool) -> "Study":
    from paceline.studies.catalogue import find, ready
    from paceline.studies.definition import make_study, read_study, slug

    if what is None:
        raise SpecError(
            "Say what to study: paceline study FILE.toml, NAME or WORKLOAD. "
            f"Ready studies: {', '.join(ready())}; `paceline workloads` lists the workloads."
        )
    file = find(what)
    if file is not None:
        return read_study(file, full=full, flags=flags, defaults=site.settings)
    return make_study({**site.settings, "name": slug(what), "workload": what}, full=full, flags=flags)


def _grid(asked: "Study", site: Site) -> "Grid":
    from paceline.studies.grid import spread

    grid = spread(asked, site)
    assert grid.cells, "an axis has at least one value"
    return grid


def _default_folder(asked: "Study", *, full: bool) -> Path:
    from paceline.studies.definition import slug

    return Path("runs") / (slug(asked.name) + ("-full" if full else ""))


def _check_writable(file: Path) -> None:
    if not file.parent.is_dir() or not os.access(file.parent, os.W_OK) or file.is_dir():
        raise OutputError(f"--csv {file} cannot be written: name a file in a folder that can be.")


def _stop_large(asked: "Study", *, dry_run: bool, as_json: bool) -> None:
    """A slip of a list makes a grid of years: say how large it is, before anything is done about it."""
    from paceline.cli.study_output import printing
    from paceline.studies.schedule import asked_seconds

    seconds = asked_seconds(asked)
    expected = f"about {human_seconds(seconds)}" if seconds is not None else "a time that only its first runs can tell"
    lengths = [" × ".join(f"{len(values):,} {name}" for name, values in axes.items()) for _, axes in asked.blocks]
    size = f"{asked.runs:,} runs ({' + '.join(lengths)}, × {asked.repeats:,} repeats) take {expected}"
    if not dry_run:
        raise SpecError(
            f"{size}: above {_MANY:,} runs a study starts only with --yes. Try --dry-run, or shorter lists."
        )
    told = f"{size}. Above {_MANY:,} runs the grid is listed, and started, only with --yes."
    with printing():
        print(_grid_as_json(asked, asked.runs, None, seconds, cells=None, notes=[told]) if as_json else told)


def _grid_as_json(
    asked: "Study", runs: int, missing: int | None, seconds: float | None, **more: list[Any] | None
) -> str:
    """What `--dry-run --json` prints; null is what was not looked at."""
    told = {"study": asked.name, "runs": runs, "missing": missing, "expected_seconds": seconds, **more}
    return jsons.dumps(told, indent=2)


def _check_folder(store: "Store", grid: "Grid", *, skip: bool) -> None:
    """Refuse a folder with another study; where runs cannot be planned here, what is missing for them is the reason."""
    try:
        store.check(grid)
    except OutputError:
        _refuse_impossible(grid, skip=skip)
        raise


def _refuse_impossible(grid: "Grid", *, skip: bool) -> None:
    impossible = grid.impossible
    if not impossible:
        return
    reasons: dict[str, int] = {}
    for cell in impossible:
        reasons[cell.problem or ""] = reasons.get(cell.problem or "", 0) + 1
    if len(reasons) == 1 and len(impossible) == len(grid.cells):
        raise SpecError(next(iter(reasons)))
    lines = [f"  {reason}" + (f" ({count} combinations)" if count > 1 else "") for reason, count in reasons.items()]
    more = [f"  … and {len(lines) - _REASONS} reasons more"] if len(lines) > _REASONS else []
    text = "\n".join([*lines[:_REASONS], *more])
    if len(impossible) == len(grid.cells):
        raise SpecError(f"None of the {len(grid.cells)} combinations can run here:\n{text}")
    told = f"{len(impossible)} of {len(grid.cells)} combinations cannot run here:\n{text}"
    if not skip:
        raise SpecError(f"{told}\nChange them, or leave them out with --skip-impossible.")
    _say(told)


def _print_grid(grid: "Grid", contents: "Contents", *, as_json: bool) -> None:
    from rich.console import Console

    from paceline.cli.study_output import print_table, printing
    from paceline.engines.local import LocalEngine
    from paceline.studies.schedule import Pace
    from paceline.studies.table import grid_table, plain, rows_of

    order, pace = grid.in_turns(), Pace()
    for run in order:
        if run.key in contents.records:
            pace.learn(run, contents.records[run.key])
    missing = [run for run in order if run.key not in contents.records]
    if pace.seconds(missing) is None:
        pace.probe(missing, LocalEngine(), _say)
    seconds = pace.seconds(missing)
    rows = rows_of(grid, contents)
    each = [pace.seconds(grid.runs_of(row.cell)[:1]) if row.cell.spec else None for row in rows]
    table = grid_table(grid, rows, contents, each)
    with printing():
        if as_json:
            cells = [{name: plain(value) for name, value in row.items()} for row in table.values]
            print(_grid_as_json(grid.study, len(order), len(missing), seconds, cells=cells, notes=table.notes))
            return
        print_table(table, Console(highlight=False))
        expected = f"about {human_seconds(seconds)}." if seconds is not None else _NOT_KNOWN
        print(f"{len(order):,} runs, {len(missing):,} of them still to do; expected time: {expected}")


def _show(grid: "Grid", contents: "Contents", store: "Store", csv: Path | None, *, as_json: bool) -> None:
    from rich.console import Console

    from paceline.cli.study_output import print_table, printing
    from paceline.studies.table import epoch_table, make_table, rows_of, to_csv

    rows = rows_of(grid, contents)
    tables = [make_table(grid, rows, contents)]
    if grid.study.per_epoch:
        tables.append(epoch_table(grid, rows, store))
    if csv is not None:
        try:
            csv.write_text(to_csv(tables[0]))
        except OSError as error:
            raise OutputError(f"--csv {csv} cannot be written ({error.strerror}): choose another file.") from error
    with printing():
        if as_json:
            print(jsons.dumps(_as_object(grid, rows, tables, contents, store), indent=2))
            return
        for table in filter(lambda table: table.texts, tables):
            print_table(table, Console(highlight=False))


def _as_object(
    grid: "Grid", rows: "list[StudyRow]", tables: "list[StudyTable]", contents: "Contents", store: "Store"
) -> dict[str, Any]:
    from paceline.studies.table import plain

    study = grid.study
    return {
        "study": study.name,
        "folder": str(store.folder),
        "scaling": study.scaling,
        "equal": study.equal,
        "repeats": study.repeats,
        "rows": [
            {
                **{name: plain(value) for name, value in values.items()},
                "state": row.state,
                "records": [str(store.folder_of(run)) for run in grid.runs_of(row.cell) if run.key in contents.records],
            }
            for row, values in zip(rows, tables[0].values, strict=True)
        ],
        "epochs": tables[1].values if len(tables) > 1 else None,
        "notes": tables[0].notes,
    }

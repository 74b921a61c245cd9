"""`paceline study`: a grid of runs, from a file, a name or flags to a table."""

import dataclasses
import json as jsons
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.flags import repeated, single, switch, with_flags
from paceline.cli.terminal import console, say
from paceline.errors import OutputError, SpecError
from paceline.network import Site
from paceline.settings import Names, Role, Setting
from paceline.spec import SETTINGS, with_role
from paceline.studies.definition import STUDY_SETTINGS, parse_values
from paceline.testbed.hosts import Testbed

if TYPE_CHECKING:
    from paceline.studies.definition import Study
    from paceline.studies.estimate import Pace, Span
    from paceline.studies.grid import Grid
    from paceline.studies.store import Contents, Store
    from paceline.studies.table import StudyRow, StudyTable

_MANY = 1_000
_REASONS = 10
_NOT_KNOWN = (
    "unknown, because the runs are given in steps or epochs, and these could not be timed. Start the study: its first "
    "run shows the time. Stop with Ctrl-C; the same command resumes the study."
)

_EXAMPLES = """
Examples:

  paceline study demo

  paceline study seed-002 --dry-run

  paceline study vae --workers 1,2 --strategy allreduce --strategy ps --batch 32 --seconds 5s --repeats 2

  paceline study my-study.toml --out results --csv results.csv
"""


_KINDS = {bool: switch, Names: repeated}
_OF_STUDY = {name: _KINDS.get(one.type, single)(one) for name, one in STUDY_SETTINGS.items()}
_OF_RUNS = {name: repeated(SETTINGS[name]) for name in with_role(Role.AXIS) if SETTINGS[name].from_flag}
_RUNNING, _OUTPUT = "Starting the study", "Output"


@with_flags({**_OF_STUDY, **_OF_RUNS})
def study(
    context: typer.Context,
    what: Annotated[str | None, typer.Argument(help="A TOML file, the name of a ready study, or a workload.")] = None,
    *,
    out: Annotated[
        Path | None, typer.Option(rich_help_panel=_OUTPUT, help="The study's folder (default: runs/NAME).")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(rich_help_panel=_OUTPUT, help="Also write the table to a CSV file.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print one JSON object instead of the table.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=_RUNNING, help="Print the grid and the expected time only.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", rich_help_panel=_RUNNING, help="Use the sizes of the file's \\[full] table.")
    ] = False,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", rich_help_panel=_RUNNING, help="Run only the variant with this label; can be repeated."
        ),
    ] = None,
    skip_impossible: Annotated[
        bool,
        typer.Option(
            "--skip-impossible", rich_help_panel=_RUNNING, help="Leave out combinations that cannot run here."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", rich_help_panel=_RUNNING, help=f"Allow more than {_MANY:,} runs.")
    ] = False,
    **flags: Any,
) -> None:
    """Run a grid of settings in turns and show how they scale. The same command resumes a study that was stopped."""
    # Imported here, so that --help answers at once.
    from paceline.cli.study_progress import complete
    from paceline.engines.local import LocalEngine
    from paceline.studies.noise import cannot_show
    from paceline.studies.store import Store

    engine = LocalEngine(context.find_object(Testbed))
    asked = _asked(what, _given(flags), engine.site, full=full, only=variant or ())
    if csv is not None:
        _check_writable(csv)
    if asked.runs > _MANY and not yes:
        _stop_large(asked, dry_run=dry_run, as_json=json)
        return
    grid = _grid(asked, engine.site)
    store = Store(out if out is not None else _default_folder(asked, full=full))
    _check_folder(store, grid, skip=skip_impossible)
    contents = store.read(grid.in_turns())
    grid, pace = _inspected(grid, contents)
    limits = list(cannot_show(grid, platform.node()))
    if dry_run:
        _print_grid(grid, contents, pace, limits, as_json=json)
    _refuse_impossible(grid, skip=skip_impossible)
    if dry_run:
        return
    if len(contents.records) < len(grid.in_turns()):
        for limit in limits:
            say(limit)
    contents = complete(grid, store, engine, contents, pace)
    _show(grid, contents, store, csv, as_json=json)
    if contents.failures:
        sys.exit(1)


study.__doc__ = f"{study.__doc__}\n{_EXAMPLES}"


def _given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the flags that the user gave, by the names used in TOML files."""
    typed = {name: value for name, value in flags.items() if value not in (None, False, [])}
    return {
        name: _own_value(STUDY_SETTINGS[name], value) if name in STUDY_SETTINGS else parse_values(name, value)
        for name, value in typed.items()
    }


def _own_value(setting: Setting, typed: bool | str | list[str]) -> Any:
    """The value of a setting of the study itself; a flag for names may be given several times."""
    if isinstance(typed, bool):
        return typed
    return setting.parse(typed if isinstance(typed, str) else ",".join(typed))


def _asked(what: str | None, flags: Mapping[str, Any], site: Site, *, full: bool, only: Sequence[str] = ()) -> "Study":
    from paceline.engines.plan import site_settings
    from paceline.studies.catalogue import find, ready
    from paceline.studies.definition import make_study, read_study, slug

    if what is None:
        raise SpecError(
            "Say what to study: paceline study FILE.toml, NAME or WORKLOAD. "
            f"Ready studies: {', '.join(ready())}; `paceline workloads` lists the workloads."
        )
    file, here = find(what), site_settings(site)
    if file is not None:
        return read_study(file, full=full, flags=flags, defaults=here, only=only)
    return make_study({**here, "name": slug(what), "workload": what}, full=full, flags=flags, only=only)


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
        raise OutputError(f"--csv {file} cannot be written: choose a file in a writable folder.")


def _stop_large(asked: "Study", *, dry_run: bool, as_json: bool) -> None:
    """Show how large a grid is before building it: a list that is too long by mistake makes a grid that takes years."""
    from paceline.cli.study_output import printing
    from paceline.studies.estimate import requested

    seconds = requested(asked)
    expected = str(seconds) if seconds is not None else "an unknown time"
    lengths = [" × ".join(f"{len(values):,} {name}" for name, values in axes.items()) for _, axes in asked.blocks]
    size = f"{asked.runs:,} runs ({' + '.join(lengths)}, × {asked.repeats:,} repeats) take {expected}"
    if not dry_run:
        raise SpecError(
            f"{size}: a study of more than {_MANY:,} runs starts only with --yes. Try --dry-run, or shorter lists."
        )
    note = f"{size}. Above {_MANY:,} runs, the grid is listed and started only with --yes."
    with printing():
        print(_grid_as_json(asked, asked.runs, None, seconds, cells=None, notes=[note]) if as_json else note)


def _grid_as_json(
    asked: "Study", runs: int, missing: int | None, seconds: "Span | None", **more: list[Any] | None
) -> str:
    """What `--dry-run --json` prints; null where something was not determined."""
    expected = dataclasses.asdict(seconds) if seconds is not None else None
    content = {"study": asked.name, "runs": runs, "missing": missing, "expected_seconds": expected, **more}
    return jsons.dumps(content, indent=2)


def _check_folder(store: "Store", grid: "Grid", *, skip: bool) -> None:
    """Refuse a folder with another study; if some runs cannot be planned here, report that as the reason instead."""
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
    more = [f"  … and {len(lines) - _REASONS} more reasons"] if len(lines) > _REASONS else []
    text = "\n".join([*lines[:_REASONS], *more])
    if len(impossible) == len(grid.cells):
        raise SpecError(f"None of the {len(grid.cells)} combinations can run here:\n{text}")
    text = f"{len(impossible)} of {len(grid.cells)} combinations cannot run here:\n{text}"
    if not skip:
        raise SpecError(f"{text}\nChange them, or leave them out with --skip-impossible.")
    say(text)


def _inspected(grid: "Grid", contents: "Contents") -> "tuple[Grid, Pace]":
    """Refuse runs that would fail for want of data; return what is known of the size of the data, for estimates."""
    from paceline.engines.inspection import inspect
    from paceline.studies.estimate import Pace

    missing = [run for run in grid.in_turns() if run.key not in contents.records]
    found = inspect(run.spec.workload for run in missing)
    return grid.refusing(found.problem, contents.records), Pace(found.facts)


def _print_grid(grid: "Grid", contents: "Contents", pace: "Pace", limits: list[str], *, as_json: bool) -> None:
    from paceline.cli.study_output import print_table, printing
    from paceline.engines.local import LocalEngine
    from paceline.studies.export import plain
    from paceline.studies.table import grid_table, rows_of

    order = grid.in_turns()
    for run in order:
        if run.key in contents.records:
            pace.learn(run, contents.records[run.key])
    missing = [run for run in order if run.key not in contents.records]
    pace.probe(missing, LocalEngine(), say)
    seconds = pace.seconds(missing)
    rows = rows_of(grid, contents)
    each = [pace.seconds(grid.runs_of(row.cell)[:1]) if row.cell.spec else None for row in rows]
    table = grid_table(grid, rows, contents, each)
    with printing():
        if as_json:
            cells = [{name: plain(value) for name, value in row.items()} for row in table.values]
            print(
                _grid_as_json(grid.study, len(order), len(missing), seconds, cells=cells, notes=[*table.notes, *limits])
            )
            return
        print_table(table, console())
        expected = f"{seconds}." if seconds is not None else _NOT_KNOWN
        print(f"{len(order):,} runs, {len(missing):,} of them still to do; expected time: {expected}")
        for limit in limits:
            print(f"note: {limit}")


def _show(grid: "Grid", contents: "Contents", store: "Store", csv: Path | None, *, as_json: bool) -> None:
    from paceline.cli.study_output import print_table, printing
    from paceline.studies.export import to_csv
    from paceline.studies.table import epoch_table, make_table, rows_of

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
            print_table(table, console())


def _as_object(
    grid: "Grid", rows: "list[StudyRow]", tables: "list[StudyTable]", contents: "Contents", store: "Store"
) -> dict[str, Any]:
    from paceline.studies.columns import PERCENTILES, column
    from paceline.studies.export import plain

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
                **{name: column(name).over(row.records) for name in (*PERCENTILES, "mean_rate") if name not in values},
                "state": row.state,
                "records": [str(store.folder_of(run)) for run in grid.runs_of(row.cell) if run.key in contents.records],
            }
            for row, values in zip(rows, tables[0].values, strict=True)
        ],
        "epochs": tables[1].values if len(tables) > 1 else None,
        "notes": tables[0].notes,
    }

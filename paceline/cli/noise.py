"""`paceline noise`: equal settings in turns, and how large a difference this machine can show."""

import json as jsons
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.cli.flags import single, with_flags
from paceline.cli.terminal import say
from paceline.errors import Interrupted, RunError, SpecError
from paceline.numbers import count, percent
from paceline.settings import Role
from paceline.spec import SETTINGS, with_role

if TYPE_CHECKING:
    from paceline.engines.local import LocalEngine
    from paceline.studies.grid import Grid
    from paceline.studies.noise import MachineNoise
    from paceline.studies.store import Contents, Store

_EXAMPLES = """
Examples:

  paceline noise

  paceline noise vae --workers 2 --repeats 10

  paceline noise resnet18:image=64 --workers 2 --strategy ps --seconds 10s --json
"""

_FLAGS = {name: single(SETTINGS[name]) for name in with_role(Role.AXIS) if SETTINGS[name].from_flag}
_FLAGS.pop("workload", None)
_MEASURING, _OUTPUT = "Measuring noise", "Output"
_SECONDS = 5.0
_LEAST = 2
_MOST_SETTINGS = 20


@with_flags(_FLAGS)
def noise(
    workload: Annotated[str, typer.Argument(help=SETTINGS["workload"].help)] = "vae",
    *,
    repeats: Annotated[int, typer.Option(rich_help_panel=_MEASURING, help="Number of turns.")] = 5,
    settings: Annotated[
        int, typer.Option(rich_help_panel=_MEASURING, help="Number of equal settings in every turn.")
    ] = 2,
    out: Annotated[
        Path | None, typer.Option(rich_help_panel=_OUTPUT, help="Folder for the runs (default: runs/noise-…).")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", rich_help_panel=_OUTPUT, help="Print one JSON object instead of the tables.")
    ] = False,
    **flags: Any,
) -> None:
    """Measure how large a difference this machine can show: equal settings, run in turns (an A/A study)."""
    # Imported here, so that --help answers at once.
    from paceline.cli.study_progress import complete
    from paceline.engines.local import LocalEngine
    from paceline.studies.store import Store

    engine = LocalEngine()
    grid = _grid(workload, flags, repeats, settings, engine)
    cell = grid.cells[0]
    default = Path("runs") / f"noise-{cell.key}"
    store = Store(out if out is not None else default)
    store.check(grid)
    contents = store.read(grid.in_turns())
    try:
        contents = complete(grid, store, engine, contents)
    except Interrupted:
        _show(store.read(grid.in_turns()), store, as_json=json, partial=True)
        raise
    _show(contents, store, as_json=json)
    if contents.failures:
        sys.exit(1)


noise.__doc__ = f"{noise.__doc__}\n{_EXAMPLES}"


def _grid(workload: str, flags: dict[str, Any], repeats: int, settings: int, engine: "LocalEngine") -> "Grid":
    from paceline.studies.definition import make_study
    from paceline.studies.grid import spread
    from paceline.studies.noise import equal_settings, without_baselines

    if repeats < _LEAST:
        raise SpecError(f"--repeats {repeats} is not valid: noise shows from turn to turn; take at least {_LEAST}.")
    if not _LEAST <= settings <= _MOST_SETTINGS:
        raise SpecError(f"--settings {settings} is not valid: compare {_LEAST} to {_MOST_SETTINGS} equal settings.")
    given = {name: SETTINGS[name].parse(text) for name, text in flags.items() if text is not None}
    if given.keys().isdisjoint({*with_role(Role.LENGTH), "timing"}):
        given["seconds"] = _SECONDS
    study = make_study({"name": "noise", "workload": workload, "repeats": repeats, **given})
    grid = without_baselines(spread(equal_settings(study, settings), engine.site))
    for cell in grid.impossible:
        raise SpecError(str(cell.problem))
    return grid


def _show(contents: "Contents", store: "Store", *, as_json: bool, partial: bool = False) -> None:
    """Print and note what the runs show; runs of an interrupted study may not show anything yet."""
    from paceline.cli.study_output import printing
    from paceline.studies.noise import noise_of, notes_file, remember

    records = list(contents.records.values())
    found = noise_of(records) if records else None
    if found is None:
        if partial:
            return
        raise RunError("The noise is not known: fewer than two turns are complete. Repeat the same command.")
    try:
        remember(found)
    except OSError as error:
        say(f"{notes_file()} cannot be written ({error.strerror}): later studies will not know of this noise.")
    with printing():
        print(jsons.dumps(_as_object(found, store), indent=2) if as_json else _in_words(found, store))


def _as_object(found: "MachineNoise", store: "Store") -> dict[str, Any]:
    low, high = found.range
    return {
        **asdict(found),
        "noise_low": low,
        "noise_high": high,
        "smallest_difference": found.smallest,
        "turns_needed": [
            {"difference": difference, "settings": settings, "turns": turns}
            for difference, by_settings in found.needed().items()
            for settings, turns in by_settings.items()
        ],
        "folder": str(store.folder),
    }


def _in_words(found: "MachineNoise", store: "Store") -> str:
    low, high = found.range
    who = f"{found.workload} · {found.strategy} · {count(found.workers, 'worker')}"
    vague = f"{percent(low)} or more" if high > 1 else f"{percent(low)} to {percent(high)}"
    can = f"a difference of {percent(found.smallest)} or more" if found.smallest < 1 else "no difference below 2x"
    lines = [
        f"{who}: {found.settings} equal settings in {count(found.turns, 'turn')}",
        f"Runs of one turn vary by {percent(found.noise)} ({vague}).",
        f"{count(found.turns, 'turn')} can show {can} between two settings.",
        "Turns that find a difference in nine of ten studies:",
    ]
    needed = found.needed()
    heads = [f"{settings} settings" for settings in next(iter(needed.values()))]
    lines.append(f"{'':>10}" + "".join(f"{head:>14}" for head in heads))
    for difference, by_settings in needed.items():
        cells = ("over 400" if turns is None else str(turns) for turns in by_settings.values())
        lines.append(f"{percent(difference):>10}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join([*lines, str(store.folder)])

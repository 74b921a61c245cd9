"""`paceline train`: run one training and write its record."""

import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli.flags import single, with_flags
from paceline.errors import Interrupted, SpecError
from paceline.settings import Role, SettingValue, read_toml
from paceline.spec import SETTINGS, RunSpec, with_role
from paceline.testbed.hosts import Testbed

_EXAMPLES = """
Examples:

  paceline train vae --workers 2 --epochs 1

  paceline train resnet18:image=64 --workers 2 --strategy bf16+allreduce --steps 50

  paceline train nmt:units=64,vocabulary=1000,length=20 --strategy ps:servers=2,mode=async --seconds 30

  paceline train resnet18:image=32 --workers 2 --feed synthetic --until-percent 2

  paceline train --spec studies/vae-mnist.toml --workers 2

  paceline train my_package.my_module:my_workload --workers 2 --steps 100 --json
"""


_FILES = "Input and output"
_FLAGS = {name: single(setting) for name, setting in SETTINGS.items() if setting.from_flag}


@with_flags(_FLAGS)
def train(
    context: typer.Context,
    workload: Annotated[str | None, typer.Argument(help=SETTINGS["workload"].help)] = None,
    *,
    settings: Annotated[
        Path | None,
        typer.Option("--spec", rich_help_panel=_FILES, help="Take settings from a TOML file; flags override it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_FILES, help="Folder for the record, series and checkpoints (default: runs/…)."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", rich_help_panel=_FILES, help="Print the record as one JSON object.")
    ] = False,
    **flags: Any,
) -> None:
    """Train a workload with one or more workers and record the run."""
    from paceline.engines.plan import site_settings

    given = {name: SETTINGS[name].parse(text) for name, text in flags.items() if text is not None}
    if workload is not None:
        given["workload"] = workload
    testbed = context.find_object(Testbed)
    if settings is not None:
        given = {**_without_length(read_toml(settings, SETTINGS), given), **given}
    if given.get("workload") is None:
        raise SpecError("Say what to train: paceline train WORKLOAD; `paceline workloads` lists them.")
    here = site_settings(testbed.site) if testbed is not None else {}
    run(RunSpec.from_dict({**here, **given}), out, as_json=json, testbed=testbed)


train.__doc__ = f"{train.__doc__}\n{_EXAMPLES}"


def _without_length(file: Mapping[str, SettingValue], flags: Mapping[str, SettingValue]) -> Mapping[str, SettingValue]:
    """The settings of a file; a length given by a flag replaces any length in the file."""
    lengths = with_role(Role.LENGTH)
    if flags.keys().isdisjoint({*lengths, "timing"}):
        return file
    return {name: value for name, value in file.items() if name not in lengths}


def run(spec: RunSpec, out: Path | None, *, as_json: bool, testbed: Testbed | None = None) -> None:
    """Plan the run, execute it and print its summary; on a testbed's hosts if there is one."""
    # Imported here, so that --help answers at once.
    from paceline.cli.output import claim_folder, print_summary
    from paceline.cli.progress import make_display
    from paceline.engines.local import LocalEngine
    from paceline.engines.plan import plan

    engine = LocalEngine(testbed)
    planned = plan(spec, engine.site)
    folder = claim_folder(out, default=_default_folder(planned.spec), resume=planned.spec.resume)
    try:
        with make_display(planned) as display:
            record = engine.run(planned, folder, display)
    except KeyboardInterrupt:
        raise Interrupted("Stopped by the user at once; nothing was recorded.") from None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # a failed run that left nothing leaves no empty folder either
            if out is None:
                folder.parent.rmdir()
    if as_json:
        print(record.to_json())
    else:
        print_summary(record, folder)
    if record.failures:
        sys.exit(1)


def _default_folder(spec: RunSpec) -> Path:
    def word(text: str) -> str:
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in text.partition(":")[0])

    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stamp}-{word(spec.workload)}-{word(spec.strategy)}-{spec.workers}w"

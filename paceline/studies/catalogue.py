"""The ready studies by name: TOML files that come with Paceline."""

from collections.abc import Mapping
from pathlib import Path

from paceline.errors import SpecError
from paceline.grammar import choose
from paceline.workloads.catalogue import WORKLOADS

# A link to the top-level folder `studies`; in an installed package, its files.
FOLDER = Path(__file__).parent / "ready"


def ready() -> dict[str, Path]:
    """Names and files, in order."""
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"))}


def find(what: str) -> Path | None:
    """The file of the study that `what` names; None if it names a workload."""
    files: Mapping[str, Path] = ready()
    if what in files and not Path(what).is_file():
        return files[what]
    if what.endswith(".toml") or Path(what).is_file():
        return Path(what)
    name = what.partition(":")[0]
    if ":" in what or name in WORKLOADS:
        return None
    try:
        choose(what, (*files, *WORKLOADS), "study or workload")
    except SpecError as error:
        raise SpecError(f"{error} You can also give a TOML file.") from None
    raise AssertionError(what)

"""Where data is looked for: subfolders of the folder that PACELINE_DATA names."""

import os
from collections.abc import Sequence
from pathlib import Path

from paceline.errors import DataError

VARIABLE = "PACELINE_DATA"


def root() -> Path | None:
    """The folder that PACELINE_DATA names; None when it is unset or empty."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    path = Path(text).expanduser()
    if not path.is_dir():
        raise DataError(f"{VARIABLE}={text} is not a folder: set it to the folder that holds the data, or unset it.")
    return path


def find(names: Sequence[str]) -> Path | None:
    """The first of these subfolders of PACELINE_DATA that exists."""
    folder = root()
    if folder is None:
        return None
    return next((folder / name for name in names if (folder / name).is_dir()), None)


def missing(
    what: str, names: Sequence[str], *, elsewhere: Sequence[Path] = (), remedies: Sequence[str] = ()
) -> DataError:
    """The error when `what` was requested and not found: where it was looked for, and the remedies."""
    folder = root()
    looked = [str(folder / name) for name in names] if folder else [f"{VARIABLE}, which is not set"]
    looked += [str(path) for path in elsewhere]
    remedies = [f"set {VARIABLE} to a folder that holds {' or '.join(names)}", *remedies, "use data=generated"]
    return DataError(f"There is no {what} in {' or '.join(looked)}.\nRemedies: {'; '.join(remedies)}.")


def limit(available: int, samples: int | None, source: str, *, option: str = "samples") -> int:
    """How many samples to use: `samples` of those available, or all of them; `option` asks for them."""
    if samples is not None and samples > available:
        raise DataError(
            f"{option}={samples} is too many: {source} has {available}; ask for at most that, or leave it out."
        )
    return available if samples is None else samples

"""How the kept set was made, with version 0.1.0 of Paceline, whose records have schema 1.

    python tests/kept/make.py PYTHON_OF_0.1.0 -m paceline

It writes `tests/kept/folders`: studies and single runs, each small. They were measured once, on a busy machine: their
values mean nothing, but they never change. `tests/test_kept.py` proves that every later version reads them and derives
the same figures from them as version 0.1.0 did; those are in `tests/kept/expected` (see `figures.py`).

What is there already is not made again. The testbed's study needs root and iproute2.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
STUDIES, FOLDERS = HERE / "studies", HERE / "folders"
TESTBED = ("testbed", "--nodes", "2", "--bandwidth", "1Gbps", "--")

_VAE = "vae:data=generated,samples=640,channels=2,hidden=8"
SINGLE_RUNS = {
    "fixed": (
        *("train", _VAE, "--workers", "2", "--strategy", "allreduce:bucket=16KB", "--batch", "16", "--device", "cpu"),
        *("--timing", "fixed:warmup=5,steps=20", "--clip-norm", "1", "--validate", "end"),
    ),
    "until": (
        *("train", _VAE, "--batch", "64", "--device", "cpu", "--validate", "off"),
        *("--until-percent", "20", "--steps", "150"),
    ),
    "stale": (
        *("train", _VAE, "--workers", "2", "--strategy", "ps:servers=2,mode=stale,bound=2", "--batch", "16"),
        *("--feed", "dataset:prefetch=1,loaders=1", "--steps", "30", "--device", "cpu", "--validate", "off"),
    ),
}
PROFILE = ("profile", _VAE, "--batch", "16", "--device", "cpu", "--until-percent", "20", "--seconds", "5s")


def main(paceline: Sequence[str]) -> None:
    """Write whatever is not there yet, by this command."""
    if not paceline:
        sys.exit("Give the command of the version to make the set with: PYTHON -m paceline")
    FOLDERS.mkdir(exist_ok=True)
    for file in sorted(STUDIES.glob("*.toml")):
        testbed = TESTBED if file.stem == "network" else ()
        _make(paceline, FOLDERS / file.stem, (*testbed, "study", str(file)))
    for name, arguments in SINGLE_RUNS.items():
        _make(paceline, FOLDERS / name, arguments)
    _make(paceline, FOLDERS / "profile.json", PROFILE)


def _make(paceline: Sequence[str], out: Path, arguments: Sequence[str]) -> None:
    """By a command that is run outside the source tree, so that no other version is imported from there."""
    if out.exists():
        return
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PACELINE_DATA")}
    with tempfile.TemporaryDirectory(prefix="kept-") as scratch:
        made = Path(scratch) / out.name
        subprocess.run([*paceline, *arguments, "--out", str(made)], cwd=scratch, env=variables, check=True)
        if made.is_dir():
            (made / ".lock").unlink(missing_ok=True)
        shutil.move(made, out)


if __name__ == "__main__":
    main(sys.argv[1:])

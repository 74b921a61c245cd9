"""What Paceline derives from the folders of the kept set, as plain data.

    python tests/kept/figures.py [FOLDER …]

writes what the imported Paceline derives to `tests/kept/expected`. That was done once, with version 0.1.0. It is
done again only for folders whose figures were wrong, in the commit that mends the mistake.
"""

import contextlib
import csv
import dataclasses
import html
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import vl_convert
from typer.testing import CliRunner

from paceline.cli.main import app
from paceline.errors import PacelineError
from paceline.measure.profile import Profile
from paceline.network import Site
from paceline.testbed.hosts import Testbed

HERE = Path(__file__).parent
STUDIES, FOLDERS, EXPECTED = HERE / "studies", HERE / "folders", HERE / "expected"
PROFILE = "profile.json"

RENAMED_TEXTS: dict[str, str] = {"allreduce:wire=bf16": "bf16+allreduce"}
"""Parts of texts, such as the spelling of a strategy: as version 0.1.0 wrote them, and as they are written now.

What is asked and the studies' files are respelled by it, and so is what is expected before it is compared.
"""

_RUNNER = CliRunner(env={"COLUMNS": "1000", "NO_COLOR": "1", "TERM": "dumb"})
VAE = "vae:data=generated,samples=640,channels=2,hidden=8"
_REFUSED = "refused: "
_MORE_WORKERS = ("--workers", "1,2,4,8")
SERIES = {
    "network": f"{VAE} allreduce dataset 100Mbps",
    "settings": f"{VAE} allreduce dataset bf16",
    "variants": "vae:data=generated,samples=640,channels=4,hidden=8 ps dataset",
}
"""Which of several kinds of runs in a folder is projected from; where one is not enough to tell, it is refused."""

QUESTIONS: dict[str, tuple[str, ...]] = {
    "more workers": _MORE_WORKERS,
    "bf16 on the wire": (*_MORE_WORKERS, "--strategy", "allreduce:wire=bf16"),
    "packs": (*_MORE_WORKERS, "--strategy", "allreduce:packs=2"),
    "two servers": (*_MORE_WORKERS, "--strategy", "ps:servers=2"),
    "asynchronous servers": (*_MORE_WORKERS, "--strategy", "ps:mode=async"),
    "network": (*_MORE_WORKERS, "--workers-per-node", "1", "--network", "1Gbps,latency=50us"),
    "bf16 over a network": (
        *("--workers", "2,4,8", "--strategy", "allreduce:wire=bf16"),
        *("--workers-per-node", "1", "--network", "100Mbps"),
    ),
    "batch": ("--workers", "1,2,4", "--batch", "24"),
    "speed, worth and cost": (
        *(*_MORE_WORKERS, "--device-speed", "2", "--feed-speed", "3"),
        *("--efficiency", "0.5", "--price", "2"),
    ),
    "break-even": (
        *("--workers", "2,4", "--strategy", "allreduce", "--break-even", "ps"),
        *("--workers-per-node", "1", "--network", "1Gbps"),
    ),
    "loss": (*_MORE_WORKERS, "--strategy", "allreduce", "--to-loss", "540"),
}
"""What `paceline project` is asked about every folder; where it refuses, the refusal is kept."""


def renamed(text: str) -> str:
    """A text of version 0.1.0 as it is written now."""
    for before, now in RENAMED_TEXTS.items():
        text = text.replace(before, now)
    return text


def _text(*arguments: str, testbed: Testbed | None = None) -> str:
    """What a command prints, or why it refuses."""
    result = _RUNNER.invoke(app, [renamed(argument) for argument in arguments], obj=testbed)
    if isinstance(result.exception, PacelineError):
        return f"{_REFUSED}{result.exception}"
    if result.exception is not None:
        raise result.exception
    return result.stdout


def _json(*arguments: str, testbed: Testbed | None = None) -> Any:
    text = _text(*arguments, "--json", testbed=testbed)
    return {"refused": text} if text.startswith(_REFUSED) else json.loads(text)


def explained(folder: str) -> dict[str, Any]:
    """`paceline explain`, as data and in words; of a single run a stretch of its trace, too."""
    answer = {"data": _json("explain", folder), "words": _text("explain", folder)}
    if (Path(folder) / "record.json").exists():
        _text("explain", folder, "--trace", "trace.json", "--steps", "12-13")
        answer["trace"] = json.loads(Path("trace.json").read_text())
    return answer


def projected(folder: str) -> dict[str, Any]:
    """`paceline project`, question by question, as data; the first in words, too."""
    series = ("--series", SERIES[folder]) if folder in SERIES else ()
    answers = {name: _json("project", folder, *series, *asked) for name, asked in QUESTIONS.items()}
    return {**answers, "words": _text("project", folder, *series, *_MORE_WORKERS)}


def _no_drawing() -> "mock._patch[Any]":
    """Pictures hold no figures of their own, and drawing them takes most of a report's time."""
    drawn = {"vegalite_to_svg": "<svg/>", "svg_to_png": b""}
    return mock.patch.multiple(vl_convert, **{name: mock.Mock(return_value=value) for name, value in drawn.items()})


def reported(folder: str) -> dict[str, Any]:
    """`paceline report`: its Markdown, the exact values behind its tables, and the data of its charts."""
    with _no_drawing():
        refused = _text("report", folder, "--out", "page.html")
    if refused.startswith(_REFUSED):
        return {"refused": refused}
    page = Path("page.html").read_text()
    content = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert content is not None, "the page holds the data of its charts"
    drawn = json.loads(content[1])
    return {
        "markdown": Path("page.md").read_text(),
        "table_values": [html.unescape(value) for value in re.findall(r' data-(?:value|low|high)="([^"]*)"', page)],
        "charts": _charts(drawn["charts"], drawn["datasets"]),
    }


def _charts(charts: dict[str, Any], datasets: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Column by column, the data that each chart shows and no earlier one; of a column of texts each text once."""
    seen: set[str] = set()
    shown = {}
    for name, chart in charts.items():
        own = [data for data in chart["data"] if data not in seen]
        shown[name] = [_columns(datasets[data]) for data in own]
        seen.update(own)
    return shown


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    return {
        name: list(dict.fromkeys(values)) if any(isinstance(value, str) for value in values) else values
        for name, values in columns.items()
    }


def tabled(folder: str) -> dict[str, Any]:
    """`paceline study` in a finished folder: its table as data, in words and as CSV. Nothing is run for it."""
    testbed = (
        Testbed(Site(2, "1Gbps")) if folder == "network" else None
    )  # never entered: it only says what is asked for
    study = ("study", f"{folder}.toml", "--out", folder)
    missing = _json(*study, "--dry-run", testbed=testbed)["missing"]
    assert missing == 0, f"{missing} runs of the kept study {folder} are not recognised"
    data = _json(*study, "--csv", "table.csv", testbed=testbed)
    with open("table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return {"data": data, "words": _text(*study, testbed=testbed), "csv": rows}


def profiled(file: str) -> dict[str, Any]:
    """A profile as read back."""
    return dataclasses.asdict(Profile.load(Path(file)))


Verb = Callable[[str], dict[str, Any]]
OF_FOLDERS: dict[str, Verb] = {"explain": explained, "project": projected, "report": reported}


def verbs_of(name: str) -> dict[str, Verb]:
    """What can be derived from one folder, or from the profile."""
    if name == PROFILE:
        return {"profile": profiled}
    return {**OF_FOLDERS, "study": tabled} if (STUDIES / f"{name}.toml").exists() else OF_FOLDERS


def names() -> list[str]:
    """Everything in the kept set."""
    return sorted(path.name for path in FOLDERS.iterdir())


def copied(name: str, place: Path) -> None:
    """Copy a folder, and its study where it has one, so that nothing can change what is kept."""
    kept = FOLDERS / name
    shutil.copytree(kept, place / name) if kept.is_dir() else shutil.copy(kept, place / name)
    if (study := STUDIES / f"{name}.toml").exists():
        (place / study.name).write_text(renamed(study.read_text()))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kept-") as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def _compact(value: Any) -> str:
    """JSON without blanks, with twelve digits of every number: more than are compared."""
    rounded = json.loads(json.dumps(value), parse_float=lambda text: float(f"{float(text):.12g}"))
    return json.dumps(rounded, ensure_ascii=False, separators=(",", ":"))


def write(name: str) -> None:
    """Write what is expected of one folder."""
    for verb, derive in verbs_of(name).items():
        with _scratch() as place:
            copied(name, place)
            derived = derive(name)
        file = EXPECTED / name.removesuffix(".json") / f"{verb}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{json.dumps(part)}: {_compact(value)}" for part, value in derived.items())
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    for each in sys.argv[1:] or names():
        write(each)

"""The 20-line example of docs/your-own-workload.md, as a reader would use it."""

import json
import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).parent.parent / "docs" / "your-own-workload.md"


def example() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", DOC.read_text(), flags=re.S)
    return str(code)


def test_the_example_is_about_twenty_lines() -> None:
    assert len([line for line in example().splitlines() if line.strip()]) <= 21


def test_the_example_trains_as_written(tmp_path: Path) -> None:
    (tmp_path / "spirals.py").write_text(example())
    commands = re.findall(r"^paceline (train spirals.*)$", DOC.read_text(), flags=re.M)
    assert len(commands) == 2
    for number, command in enumerate(commands):
        finished = subprocess.run(
            [sys.executable, "-m", "paceline", *command.split(), "--out", f"run{number}", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert finished.returncode == 0, finished.stderr
        record = json.loads(finished.stdout)
        assert record["learning"]["loss"][-1] < 0.6 * record["learning"]["loss"][0]
        assert record["throughput"]["unit"] == "points/s"
    assert record["spec"]["workload"] == "spirals:spirals:points=4000,hidden=128"

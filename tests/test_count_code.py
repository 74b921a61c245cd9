"""What the counting script counts, on a package whose counts are known."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SPEC = '''"""Settings."""
from dataclasses import dataclass


@dataclass
class RunSpec:
    """One run."""

    workers: int = 1
    batch: int = 8
    """Samples."""


OWN = ("workers", "batch")
'''
USE = '''"""Uses them."""

from typing import Any, Literal

# a comment
ALIKE = ("workers", "batch")
MIXED = ("workers", "colour")
Word = Literal["batch"]


class RunSpec:
    def read(self, row: dict[str, Any]) -> "dict[str, object]":
        """Two
        lines."""
        row["batch"] = row["workers"]

        return {"workers": 1, "batch": 2}


def known(row: dict[str, int]) -> int:
    return row[""] if row else 0
'''


def counted(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "benchmarks" / "count_code.py"), *arguments, "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


def test_a_package_is_counted_as_by_hand(tmp_path: Path) -> None:
    (tmp_path / "spec.py").write_text(SPEC)
    (tmp_path / "use.py").write_text(USE)
    assert counted(str(tmp_path)) == {
        "string_subscripts": 3,
        "untyped_dicts": 2,
        "untyped_kinds": {"dict[str, Any]": 1, "dict[str, object]": 1},
        "settings_lists": ["use.py:6 workers, batch", "use.py:17 workers, batch"],
        "repeated_classes": {"RunSpec": ["spec.py:6", "use.py:11"]},
        "files": 2,
        "code_lines": 6 + 10,
        "longest_file": ["use.py", 21],
        "longest_function": ["use.py:read", 3],
        "commits": {},
    }


def test_what_travels_under_names_that_no_type_checker_knows_stays_little() -> None:
    found = counted()
    assert found["string_subscripts"] <= 200
    assert found["untyped_dicts"] <= 50
    assert (found["settings_lists"], found["repeated_classes"]) == ([], {})

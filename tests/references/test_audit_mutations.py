"""Slips made in published tables are found, and the tables as they are accuse nobody: a benchmark in short."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "audit_mutations.py"


def test_slips_of_every_kind_are_found_in_published_tables_and_no_sound_table_is_accused() -> None:
    command = [sys.executable, str(BENCHMARK), "--source", "references", "--each", "1", "--json"]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout)
    assert result["accused"] == {}
    found = {kind: counts["found"] / counts["made"] for kind, counts in result["kinds"].items()}
    wanting = {kind for kind, share in found.items() if share < 0.9}
    assert wanting <= {"a wrong count"}, "a count that is that of a neighbour may pass for a repeat"
    made, hit = (sum(counts[key] for counts in result["kinds"].values()) for key in ("made", "named"))
    assert made > 300
    assert hit / made > 0.95

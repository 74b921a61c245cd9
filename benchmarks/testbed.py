"""How well one- and two-worker runs in a testbed foretell the runs of more workers: a study, and what it measured.

sudo paceline testbed --nodes 3 --bandwidth 100Mbps -- study studies/testbed-projection.toml
python benchmarks/testbed.py runs/testbed-projection
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.measure.runs import find
from paceline.measure.scaling import ScalingRow, scaling_rows
from paceline.numbers import rate
from paceline.project.curve import Point
from paceline.project.questions.answer import Runs
from paceline.project.questions.whatif import Question, curve
from paceline.record import Record
from paceline.settings import Baseline
from paceline.spec import with_baseline
from paceline.studies.table import figure


def main() -> None:
    """Print a line of Markdown per run of more workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the folder of a study that was run in a testbed")
    parser.add_argument("--up-to", type=int, default=2, help="workers whose runs are known (default: 2)")
    arguments = parser.parse_args()
    records = [run.record for run in find([arguments.study]).runs]
    print("| workload | strategy | network | workers | two workers' exposed | measured | speed-up | projected | off |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|")
    for line in _lines(records, arguments.up_to):
        print(line)


def _lines(records: Sequence[Record], known: int) -> Iterator[str]:
    for row in scaling_rows(records):
        record = row.records[0]
        if record.spec.workers <= known or record.spec.strategy == "independent":
            continue
        small = [r for r in records if _of_a_kind(r, record) and r.spec.workers <= known]
        if not any(r.spec.workers > 1 for r in small):
            continue
        yield _line(row, small)


def _of_a_kind(other: Record, record: Record) -> bool:
    """Of the same curve; one worker alone has no network."""
    names = with_baseline(Baseline.SAME, Baseline.PREFERRED)
    same = all(getattr(other.spec, name) == getattr(record.spec, name) for name in names)
    alone = other.spec.workers == 1 and other.spec.strategy == "independent"
    there = other.spec.strategy == record.spec.strategy and other.spec.network == record.spec.network
    return same and (alone or there)


def _line(row: ScalingRow, small: Sequence[Record]) -> str:
    record = row.records[0]
    runs = Runs.of(small, record.spec.strategy)
    point = Point(workers=record.spec.workers, nodes=record.spec.nodes, batch=None)
    (projected,) = curve(runs.simulated, [point], Question()).points
    anchor = max(small, key=lambda r: r.spec.workers)
    exposed = (anchor.phases.exchange + anchor.phases.wait) / anchor.step_seconds
    assert projected.throughput is not None
    off = projected.throughput / row.throughput.value - 1
    cells = (record.spec.workload, record.spec.strategy, record.spec.network or "", str(record.spec.workers))
    speedup = figure(row.speedup, "{:.2f}×".format)
    told = (f"{exposed:.0%}", figure(row.throughput, rate), speedup, rate(projected.throughput), f"{off:+.1%}")
    return f"| {' | '.join((*cells, *told))} |"


if __name__ == "__main__":
    main()

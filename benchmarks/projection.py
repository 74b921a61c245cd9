"""The simulation of a step against real runs of two workers: each setting predicted from another and one worker alone.

    python benchmarks/projection.py [--turns 5] [--steps 100] [--keep FOLDER] [WORKLOAD@BATCH …]
    sudo python benchmarks/projection.py --bandwidth 1Gbps                 # two nodes with a real link between them

All settings run in turns, two workers, each with one core, on one node or on two. Compared is the quietest stretch of
steps of each with what is predicted from those of allreduce and of one worker alone in the same turn, as studies have
them; the error is the median over the turns, in brackets the least and the most. On a machine that others use it says
little, as waiting for a core is not in the model.
"""

import argparse
import contextlib
import dataclasses
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan, site_settings
from paceline.measure import sidecar
from paceline.measure.exchange import buckets_of, hidden_seconds
from paceline.measure.phases import phases_of
from paceline.project.curve import Point
from paceline.project.questions.whatif import Measured, Question, curve
from paceline.record import Record
from paceline.record_parts import Overlap, Phases
from paceline.spec import RunSpec
from paceline.testbed.hosts import Testbed, site
from paceline.traffic import catalogue

WORKLOADS = ("vae@1", "resnet18:image=32@2")
ALONE = "independent"
ANCHOR = "allreduce"
STRATEGIES = (
    ALONE,
    ANCHOR,
    "allreduce:bucket=250KB",
    "allreduce:bucket=4MB",
    "bf16+allreduce",
    "allreduce:packs=4",
    "allreduce:overlap=off",
    "ps",
    "ps:servers=2",
)
QUIET_STEPS = 8
"""Length of the stretch that counts."""


def run(engine: LocalEngine, workload: str, batch: int, strategy: str, steps: int, folder: Path) -> Record:
    """One run; one worker alone needs one node only."""
    spec = RunSpec(
        workload=workload,
        workers=1 if strategy == ALONE else 2,
        batch=batch,
        strategy=strategy,
        steps=steps,
        validate="off",
        feed="synthetic",
    )
    if strategy != ALONE:
        spec = RunSpec.from_dict({**spec.to_dict(), **site_settings(engine.site)})
    return engine.run(plan(spec, engine.site), folder, NoDisplay())


def quietest(record: Record, folder: Path) -> Record:
    """The record with phases, hidden exchange and buckets of the fastest stretch of its timed steps."""
    series = sidecar.load(folder)
    begin, end = record.warmup_steps, min(len(worker.end) for worker in series)
    pace = np.mean([(worker.end - worker.begin)[begin:end] for worker in series], axis=0)
    length = min(QUIET_STEPS, len(pace))
    means = np.convolve(pace, np.ones(length) / length, mode="valid")
    start = begin + int(means.argmin())
    timed = [slice(start, start + length)] * len(series)
    traffic = catalogue.resolve(record.spec.strategy)
    each = phases_of(series, timed, synchronous=traffic.synchronous)
    phases = Phases.mean(each)
    rows = [
        dataclasses.replace(row, phases=own, step_seconds=own.total)
        for row, own in zip(record.per_worker, each, strict=True)
    ]
    hidden = hidden_seconds(series, timed)
    exposed = phases.exchange + phases.wait
    overlap = None if hidden is None else Overlap(busy=hidden + exposed, hidden=hidden, exposed=exposed)
    return dataclasses.replace(
        record, phases=phases, per_worker=tuple(rows), overlap=overlap, buckets=buckets_of(series, timed)
    )


def errors(known: Sequence[Record], quiet: dict[str, Record]) -> dict[str, float]:
    """By strategy: what two workers were predicted to take, against what they took."""
    measured = Measured.of_records(known)
    found = {}
    for strategy in STRATEGIES[2:]:
        point = Point(workers=2, nodes=quiet[strategy].spec.nodes, batch=None)
        (predicted,) = curve(measured, [point], Question(strategy=strategy)).points
        assert predicted.step_seconds is not None, "the batch is known"
        found[strategy] = predicted.step_seconds / quiet[strategy].step_seconds - 1
    return found


def measure(engine: LocalEngine, text: str, turns: int, steps: int, folder: Path) -> list[dict[str, Record]]:
    """The quietest stretch of every setting, by turn."""
    workload, _, batch = text.partition("@")
    found = []
    for turn in range(turns):
        quiet = {}
        for strategy in STRATEGIES:
            out = folder / f"{turn}-{strategy}"
            quiet[strategy] = quietest(run(engine, workload, int(batch), strategy, steps, out), out)
        found.append(quiet)
    return found


def compare(text: str, turns: Sequence[dict[str, Record]]) -> None:
    """A row for each setting."""
    workload, _, batch = text.partition("@")
    by_turn = [errors([quiet[ALONE], quiet[ANCHOR]], quiet) for quiet in turns]
    for strategy in STRATEGIES[2:]:
        seen = [quiet[strategy] for quiet in turns]
        seconds = statistics.median(record.step_seconds for record in seen)
        exposed = statistics.median((r.phases.exchange + r.phases.wait) / r.step_seconds for r in seen)
        off = sorted(100 * found[strategy] for found in by_turn)
        print(
            f"| {workload} | {batch} | {strategy} | {1e3 * seconds:.1f} ms | {100 * exposed:.0f} % | "
            f"{statistics.median(off):+.0f} % ({off[0]:+.0f} to {off[-1]:+.0f}) |",
            flush=True,
        )


def main() -> None:
    """Measure what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100, help="of every run")
    parser.add_argument("--bandwidth", help="of the link between two nodes in a testbed; otherwise one node")
    parser.add_argument("--keep", type=Path, help="a folder for the records; otherwise they are removed")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{arguments.turns} turns of {arguments.steps} steps; load at the start {load:.1f}.\n")
    print("| workload | batch | strategy | a step | exposed | error |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        testbed = Testbed(site(2, arguments.bandwidth)) if arguments.bandwidth else None
        engine = LocalEngine(stack.enter_context(testbed) if testbed else None)
        for text in arguments.workloads:
            folder = (arguments.keep or Path(temporary)) / text
            compare(text, measure(engine, text, arguments.turns, arguments.steps, folder))
    print(f"\nLoad at the end {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()

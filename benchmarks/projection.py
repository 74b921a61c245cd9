"""The simulation of a step against real runs of two workers: each setting predicted from another and one worker alone.

    python benchmarks/projection.py [--turns 5] [--steps 100] [--keep FOLDER] [WORKLOAD@BATCH …]

All settings run in turns, two workers on one node, each with one core. Compared is the quietest stretch of steps of
each with what is predicted from those of allreduce and of one worker alone, as every study has them. On a machine that
others use it says little, as waiting for a core is not in the model.
"""

import argparse
import dataclasses
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import plan
from paceline.measure import sidecar
from paceline.measure.exchange import buckets_of, hidden_seconds
from paceline.measure.phases import phases_of
from paceline.project.calibrate import fit_host
from paceline.project.network import Layout
from paceline.project.profile_step import profile_of
from paceline.project.simulate import Setting, Step, simulate
from paceline.record import Record
from paceline.spec import RunSpec
from paceline.traffic import catalogue

WORKLOADS = ("vae@1", "resnet18:image=32@2")
ALONE = "independent"
ANCHOR = "allreduce"
STRATEGIES = (
    ALONE,
    ANCHOR,
    "allreduce:bucket=250KB",
    "allreduce:bucket=4MB",
    "allreduce:wire=bf16",
    "allreduce:packs=4",
    "allreduce:overlap=off",
    "ps",
    "ps:servers=2",
)
QUIET_STEPS = 8
"""Length of the stretch that counts."""


def run(workload: str, batch: int, strategy: str, steps: int, folder: Path) -> Record:
    """One run."""
    spec = RunSpec(
        workload=workload,
        workers=1 if strategy == ALONE else 2,
        batch=batch,
        strategy=strategy,
        steps=steps,
        validate="off",
        feed="synthetic",
    )
    return LocalEngine().run(plan(spec), folder, NoDisplay())


def quietest(record: Record, folder: Path) -> Record:
    """The record with phases, hidden exchange and buckets of the fastest stretch of its timed steps."""
    series = sidecar.load(folder)
    begin, end = record.warmup_steps, min(len(worker["end"]) for worker in series)
    pace = np.mean([(worker["end"] - worker["begin"])[begin:end] for worker in series], axis=0)
    length = min(QUIET_STEPS, len(pace))
    means = np.convolve(pace, np.ones(length) / length, mode="valid")
    start = begin + int(means.argmin())
    timed = [slice(start, start + length)] * len(series)
    traffic = catalogue.resolve(record.spec["strategy"])
    each = phases_of(series, timed, synchronous=traffic.synchronous)
    phases = {name: statistics.fmean(worker[name] for worker in each) for name in each[0]}
    hidden = hidden_seconds(series, timed)
    exposed = phases["exchange"] + phases["wait"]
    overlap = None if hidden is None else {"busy": hidden + exposed, "hidden": hidden, "exposed": exposed}
    return dataclasses.replace(record, phases=phases, overlap=overlap, buckets=buckets_of(series, timed))


def predicted(known: Sequence[Record], strategy: str) -> Step:
    """Two workers on one node by this strategy, from records of another and of one worker alone."""
    host = fit_host(known)
    assert host is not None, "two workers of one node exchange by the work of their cores"
    setting = Setting(traffic=catalogue.resolve(strategy), layout=Layout(2, 2), host=host)
    return simulate(profile_of(known), setting)


def measure(workload: str, batch: int, turns: int, steps: int, folder: Path) -> dict[str, list[Record]]:
    """All settings, in turns."""
    measured: dict[str, list[Record]] = {strategy: [] for strategy in STRATEGIES}
    for turn in range(turns):
        for strategy in STRATEGIES:
            measured[strategy].append(run(workload, batch, strategy, steps, folder / f"{turn}-{strategy}"))
    return measured


def compare(workload: str, batch: int, quiet: dict[str, Record]) -> None:
    """A row for each setting."""
    known = [quiet[ALONE], quiet[ANCHOR]]
    for strategy in STRATEGIES[2:]:
        seen = quiet[strategy]
        exposed = (seen.phases["exchange"] + seen.phases["wait"]) / seen.step_seconds
        error = predicted(known, strategy).seconds / seen.step_seconds - 1
        print(
            f"| {workload} | {batch} | {strategy} | {1e3 * seen.step_seconds:.1f} ms | {100 * exposed:.0f} % | "
            f"{100 * error:+.0f} % |",
            flush=True,
        )


def main() -> None:
    """Measure what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100, help="of every run")
    parser.add_argument("--keep", type=Path, help="a folder for the records; otherwise they are removed")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{arguments.turns} turns of {arguments.steps} steps; load at the start {load:.1f}.\n")
    print("| workload | batch | strategy | a step | exposed | error |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for text in arguments.workloads:
            name, _, batch = text.partition("@")
            folder = (arguments.keep or Path(temporary)) / text
            measured = measure(name, int(batch), arguments.turns, arguments.steps, folder)
            quiet = {
                strategy: min(
                    (quietest(record, folder / f"{turn}-{strategy}") for turn, record in enumerate(runs)),
                    key=lambda record: record.step_seconds,
                )
                for strategy, runs in measured.items()
            }
            compare(name, int(batch), quiet)
    print(f"\nLoad at the end {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()

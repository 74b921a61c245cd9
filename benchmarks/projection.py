"""The simulation of a step against real runs of two workers: each setting predicted from one record of another.

    python benchmarks/projection.py [--turns 5] [--steps 100] [--keep FOLDER] [WORKLOAD@BATCH …]

All settings run in turns, two workers on one node, each with one core. Shown are two errors:

- of the step's time: the quietest stretch of steps of each setting, predicted from that of allreduce alone. On a
  machine that others use it says little, as waiting for a core is not in the model.
- of the processor time of a step, on the core that has most of it: each setting's median over the turns, predicted from
  the medians of one worker alone and of allreduce. It depends less on who else uses the machine, and on one that nobody
  else uses a step takes little longer.
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
    workers = 1 if strategy == ALONE else 2
    spec = RunSpec(
        workload=workload,
        workers=workers,
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


def in_processor_time(alone: Record, anchor: Record) -> list[Record]:
    """Both records with phases in processor time: what the anchor has beyond one worker alone is its exchange."""
    own = statistics.fmean(worker["cpu_seconds_per_step"] for worker in alone.per_worker)
    phases = {name: seconds * own / alone.step_seconds for name, seconds in alone.phases.items()}
    beyond = statistics.fmean(worker["cpu_seconds_per_step"] for worker in anchor.per_worker) - own
    exchanged = {**phases, "exchange": max(0.0, beyond), "wait": 0.0}
    return [dataclasses.replace(alone, phases=phases), dataclasses.replace(anchor, phases=exchanged)]


def processor_seconds(record: Record) -> float:
    """Of a step, on the core that has most of it: its worker's, and its servers'."""
    cores = {worker["device"]: float(worker["cpu_seconds_per_step"]) for worker in record.per_worker}
    for server in record.servers:
        share = server["utilisation_percent"] / 100
        cores[server["device"]] = cores.get(server["device"], 0.0) + share * record.step_seconds
    return max(cores.values())


def predicted(records: Sequence[Record], strategy: str) -> Step:
    """Two workers on one node by this strategy, from these records."""
    host = fit_host(records)
    assert host is not None, "two workers of one node exchange by the work of their cores"
    setting = Setting(traffic=catalogue.resolve(strategy), layout=Layout(2, 2), host=host)
    return simulate(profile_of(records), setting)


def measure(workload: str, batch: int, turns: int, steps: int, folder: Path) -> dict[str, list[Record]]:
    """All settings, in turns."""
    measured: dict[str, list[Record]] = {strategy: [] for strategy in STRATEGIES}
    for turn in range(turns):
        for strategy in STRATEGIES:
            measured[strategy].append(run(workload, batch, strategy, steps, folder / f"{turn}-{strategy}"))
    return measured


def compare(workload: str, batch: int, measured: dict[str, list[Record]], quiet: dict[str, Record]) -> None:
    """A row for each setting."""
    usual = {name: sorted(runs, key=processor_seconds)[len(runs) // 2] for name, runs in measured.items()}
    for strategy in STRATEGIES[1:]:
        seen = quiet[strategy]
        exposed = (seen.phases["exchange"] + seen.phases["wait"]) / seen.step_seconds
        in_time = predicted([quiet[ANCHOR]], strategy).seconds / seen.step_seconds - 1
        busy = processor_seconds(usual[strategy])
        in_busy = predicted(in_processor_time(usual[ALONE], usual[ANCHOR]), strategy).seconds / busy - 1
        print(
            f"| {workload} | {batch} | {strategy} | {1e3 * seen.step_seconds:.1f} ms | {100 * exposed:.0f} % | "
            f"{100 * in_time:+.0f} % | {1e3 * busy:.1f} ms | {100 * in_busy:+.1f} % |",
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
    print("| workload | batch | strategy | a step | exposed | error | processor time | error |")
    print("|---|---|---|---|---|---|---|---|")
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
            compare(name, int(batch), measured, quiet)
    print(f"\nLoad at the end {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()

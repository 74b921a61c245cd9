"""Train the VAE with 1 and 2 workers by every basic strategy, and print how it scales."""

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from paceline.cli.output import interval
from paceline.measure.scaling import ScalingRow, scaling_rows
from paceline.record import Record
from paceline.units import human_bytes

STRATEGIES = ("independent", "allreduce", "ps")
ROUNDS = 2
SECONDS = "5s"


def main() -> None:
    """A plain loop over `paceline train`, in turns, so that a busy moment of the machine does not hit one way alone."""
    best: dict[tuple[str, int], Record] = {}
    with tempfile.TemporaryDirectory(prefix="paceline-demo-") as folder:
        for turn, strategy, workers in itertools.product(range(ROUNDS), STRATEGIES, (1, 2)):
            record = train(strategy, workers, Path(folder) / f"{strategy}-{workers}-{turn}")
            known = best.get((strategy, workers))
            if known is None or record.throughput["value"] > known.throughput["value"]:
                best[strategy, workers] = record
    show(scaling_rows(list(best.values())))


def train(strategy: str, workers: int, out: Path) -> Record:
    """One run of the command line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    command = [sys.executable, "-m", "paceline", "train", "vae", "--workers", str(workers), "--strategy", strategy]
    command += ["--batch", "32", "--seconds", SECONDS, "--validate", "off", "--out", str(out), "--json"]
    if workers > cores:
        command += ["--workers-per-device", str(workers)]
    finished = subprocess.run(command, stdout=subprocess.DEVNULL)
    if finished.returncode:
        sys.exit(finished.returncode)
    return Record.load(out)


def show(rows: list[ScalingRow]) -> None:
    """The scaling table."""
    console = Console(highlight=False)
    console.width = max(console.width, 100)  # a table that is cut says nothing
    table = Table(title=f"vae, weak scaling, batch 32 per worker, {rows[0].record.workload['data']['source']}")
    for heading in ("strategy", "workers", "devices", "images/s (95 %)", "speed-up", "efficiency", "sent per step"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for row in rows:
        record = row.record
        table.add_row(
            record.spec["strategy"],
            str(record.spec["workers"]),
            str(record.devices),
            interval(record.throughput),
            f"{row.speedup:.2f}×" if row.speedup is not None else "–",
            f"{row.efficiency:.0%}" if row.efficiency is not None else "–",
            human_bytes(record.traffic["sent_bytes_per_worker_and_step"]),
        )
    console.print(table)
    console.print(
        f"The better of {ROUNDS} rounds, taken in turns. Ideal is the one-worker rate of `independent` × devices;"
    )
    console.print("a server with a core of its own counts as a device.")
    if any(row.efficiency is not None and row.efficiency > 1.05 for row in rows):
        console.print("An efficiency above 100 % is noise: the machine's pace changed between runs.")


if __name__ == "__main__":
    main()

"""Train the VAE with 1 and 2 workers by every basic strategy, and print how it scales."""

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
SECONDS = "8s"


def main() -> None:
    """A plain loop over `paceline train`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    sharing = ["--workers-per-device", "2"] if cores < 2 else []
    records = []
    with tempfile.TemporaryDirectory(prefix="paceline-demo-") as folder:
        for strategy in STRATEGIES:
            for workers in (1, 2):
                out = Path(folder) / f"{strategy}-{workers}"
                command = [sys.executable, "-m", "paceline", "train", "vae", "--workers", str(workers)]
                command += ["--strategy", strategy, "--batch", "32", "--seconds", SECONDS, "--validate", "off"]
                command += [*(sharing if workers == 2 else []), "--out", str(out), "--json"]
                finished = subprocess.run(command, stdout=subprocess.DEVNULL)
                if finished.returncode:
                    sys.exit(finished.returncode)
                records.append(Record.load(out))
    show(scaling_rows(records))


def show(rows: list[ScalingRow]) -> None:
    """The scaling table."""
    first = rows[0].record
    console = Console(highlight=False)
    console.width = max(console.width, 100)  # a table that is cut says nothing
    table = Table(title=f"vae, weak scaling, batch 32 per worker, {first.workload['data']['source']}")
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
        "Ideal is the one-worker rate of `independent` × devices; a server with a core of its own counts as one."
    )


if __name__ == "__main__":
    main()

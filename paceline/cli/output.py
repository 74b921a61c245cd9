"""Create output folders without overwriting anything, and print summaries."""

import os
from dataclasses import asdict, replace
from pathlib import Path

from rich.table import Table
from rich.text import Text

from paceline.cli.terminal import console as plain_console
from paceline.errors import OutputError
from paceline.measure.emulation import host_was_limit
from paceline.measure.links import in_words
from paceline.measure.ratios import rate_of, why_not_known
from paceline.numbers import count, rate, significant
from paceline.record import FILE_NAME, Record
from paceline.record_parts import DeviceRow, Emulation
from paceline.studies.table import NOT_KNOWN, figure
from paceline.units import human_bytes, human_seconds


def claim_folder(out: Path | None, *, default: Path, resume: str | None) -> Path:
    """Return a writable folder without another run's files; existing files stay unchanged."""
    folder = out if out is not None else _free(default)
    try:
        if (folder / FILE_NAME).exists():
            raise OutputError(f"{folder} already holds a record: choose another --out; records are never overwritten.")
        continued = resume is not None and Path(resume).resolve().is_relative_to(folder.resolve())
        if (folder / "checkpoints").exists() and not continued:
            raise OutputError(f"{folder} holds another run's checkpoints: choose another --out, or --resume {folder}.")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out {folder} cannot be created ({error.strerror}): choose another folder.") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"--out {folder} cannot be written: choose another folder, or change its permissions.")
    return folder


def _free(folder: Path) -> Path:
    number, candidate = 1, folder
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate


def _throughput(record: Record) -> str:
    """`512 (505–520) images/s`: the median and its 95 % interval, or why it is not known."""
    unknown = why_not_known([record])
    if unknown is not None:
        return f"{NOT_KNOWN}: {unknown}"
    limited = host_was_limit([record]) is not None
    return f"{figure(replace(rate_of(record), host_limited=limited), rate)} {record.throughput.unit}"


def _step(record: Record) -> str:
    """The mean step and its phases, and how long steps took at most."""
    text = f"{human_seconds(record.step_seconds)}: {_phases(record)}"
    seen = record.step_percentiles
    if seen is None:
        return text
    percentiles = {"p50": seen.p50, "p90": seen.p90, "p99": seen.p99}
    return f"{text}; {', '.join(f'{name} {human_seconds(seconds)}' for name, seconds in percentiles.items())}"


def print_summary(record: Record, folder: Path) -> None:
    """Print the summary of a run, on one screen."""
    console = plain_console()
    spec, learning = record.spec, record.learning
    console.print(
        Text.assemble((spec.workload, "bold")),
        f"· {spec.strategy} · {count(spec.workers, 'worker')} on {count(record.devices, 'device')} · "
        f"batch {record.batch} per worker, {learning.global_batch} in total",
    )
    facts = Table(show_header=False, box=None, pad_edge=False)
    facts.add_row("throughput", _throughput(record))
    if record.mean_rate is not None:
        facts.add_row(
            "mean rate", f"{rate(record.mean_rate)} {record.throughput.unit}, {record.workload.unit} ÷ seconds"
        )
    way = ", fixed in advance" if spec.timing != "detected" else ""
    facts.add_row("timed", f"{count(record.steps_timed, 'step')} after {record.warmup_steps} of warm-up{way}")
    facts.add_row("a step", _step(record))
    facts.add_row("busy", _busy(record))
    if record.emulation is None:
        facts.add_row("loss", _loss(record))
        facts.add_row("learning", _learning(record))
    else:
        facts.add_row("emulated", _emulated(record.emulation))
    facts.add_row("sent", f"{human_bytes(record.traffic.sent_bytes_per_worker_and_step)} per worker and step")
    if record.network is not None:
        nodes = record.network.nodes
        links = f"{len(nodes)} nodes, {record.network.asked}; measured {in_words(nodes)}"
        facts.add_row("network", links)
    staleness = record.strategy_report.get("mean_staleness")
    if staleness is not None:
        facts.add_row("staleness", f"{staleness:.2f} updates on average")
    facts.add_row("data", record.workload.data.source)
    parts = asdict(record.wall_seconds).items()
    facts.add_row("wall time", ", ".join(f"{part} {human_seconds(s)}" for part, s in parts if s > 1e-3))
    facts.add_row("record", str(folder / FILE_NAME))
    console.print(facts)
    for text in filter(None, (*record.failures, host_was_limit([record]), *record.warnings)):
        console.print(Text("note:", style="yellow"), text)


def number(value: float | None) -> str:
    """Format with five digits; `not finite` where a figure was NaN or infinite."""
    return significant(value, 5) if value is not None else "not finite"


def _phases(record: Record) -> str:
    shares = sorted(record.phases, key=lambda phase: -phase[1])
    return ", ".join(f"{name} {seconds / record.step_seconds:.0%}" for name, seconds in shares if seconds)


def _busy(record: Record) -> str:
    """How busy the devices were, and how much of the exchange overlapped with backward."""
    devices = ", ".join(_device(record, row) for row in record.utilisation if row.busy_percent)
    hidden = record.overlap.hidden if record.overlap is not None else 0.0
    communication = hidden + record.phases.exchange  # without the wait for a straggler, which is no communication
    if record.overlap is None or not communication:
        return devices or "not measured"
    return f"{devices or 'not measured'}; {hidden / communication:.0%} of the exchange overlapped with backward"


def _device(record: Record, row: DeviceRow) -> str:
    """How busy a device was, and with whose work."""
    busy = row.busy_percent or 0.0
    if row.workers_percent is None:
        return f"{row.device} {busy:.0f}%"
    here = [worker.loader_utilisation_percent for worker in record.per_worker if worker.device == row.device]
    serving = [server.utilisation_percent for server in record.servers if server.device == row.device]
    whose = {
        "workers": min(busy, row.workers_percent),
        "servers": sum(share or 0.0 for share in serving),
        "loaders": 0.0 if record.servers else sum(share or 0.0 for share in here),
        "other machines": row.stolen_percent or 0.0,
    }
    whose["other processes"] = max(0.0, busy - sum(whose.values()))
    named = ", ".join(f"{name} {share:.0f}%" for name, share in whose.items() if share >= 0.5)
    return f"{row.device} {busy:.0f}% ({named or 'nobody'})"


def _emulated(emulation: Emulation) -> str:
    """Where the emulated devices' timing comes from, and how busy the host's cores were."""
    sources = "; ".join(dict.fromkeys(device.source.rstrip(".") for device in emulation.devices))
    busy = emulation.host_busy_percent
    slow = f"slow motion {emulation.slow_motion:g}, " if emulation.slow_motion != 1 else ""
    return f"{sources}; {slow}this machine's cores {'not measured' if busy is None else f'{busy:.0f}% busy'}"


def _loss(record: Record) -> str:
    losses = [loss for loss in record.learning.loss if loss is not None]
    text = f"{significant(losses[0])} → {significant(losses[-1])}"
    if record.learning.validation:
        last = record.learning.validation[-1]
        metrics = "".join(f", {name} {number(value)}" for name, value in last.metrics.items())
        text += f"; validation {number(last.loss)}{metrics}"
    return text


def _learning(record: Record) -> str:
    learning = record.learning
    updates, samples = count(learning.updates, "update"), count(learning.samples_seen, "sample")
    return f"{updates}, {samples}, lr {learning.lr:.4g} (rule {learning.lr_rule}), gradients by {learning.reduction}"

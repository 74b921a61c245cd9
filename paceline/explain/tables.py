"""Print explanations in the terminal: a few lines and tables."""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from paceline.breakdown.gap import LABELS, Gap
from paceline.breakdown.setting import MeasuredSetting, Worker
from paceline.explain.verdict import Account, Explanation
from paceline.explain.wall import wall_seconds
from paceline.numbers import count, ms, percent
from paceline.record_parts import PHASES, Phases
from paceline.units import human_seconds

_MOST_WORKERS = 16
_MOST_CAUSES = 4


def print_account(account: Account, console: Console) -> None:
    """Print every explanation, the common verdict first."""
    if len(account.explanations) > 1:
        console.print(f"[bold]{escape(account.verdict)}[/bold]")
        console.print(f"Next: {escape(account.worst.remedy)}\n")
    for explanation in account.explanations:
        _print(explanation, console, alone=len(account.explanations) == 1)
    for note in account.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}")


def _print(explanation: Explanation, console: Console, *, alone: bool) -> None:
    setting = explanation.case.setting
    repeats = f" · {count(len(setting.runs), 'repeat')}" if len(setting.runs) > 1 else ""
    console.print(f"[bold]{escape(setting.label)}[/bold]{repeats} · {ms(setting.step_seconds)} per step")
    if explanation.gap is None or alone:
        console.print(_phases(setting))
    if explanation.gap is not None:
        console.print(_gap(explanation.gap))
        for line in _gains(explanation.gap):
            console.print(line)
    console.print(f"[bold]{escape(explanation.verdict)}[/bold]")
    for line in explanation.evidence:
        console.print(f"  {escape(line)}")
    for cause in explanation.further[:_MOST_CAUSES]:
        console.print(f"  Also: {escape(cause.sentence)}.")
    console.print(f"  Next: {escape(explanation.remedy)}")
    console.print(f"  {_exchange(setting)}{_wall(setting)}")
    for note in explanation.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}")
    console.print()


def _phases(setting: MeasuredSetting) -> Table:
    """A row per worker: milliseconds of every phase, and below them their share of the step."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("ms")
    for name in (*PHASES, "late", "used"):
        table.add_column(name, justify="right")
    if len(setting.workers) > 1:
        table.add_row("mean", *_cells(setting.phases), "", "")
    for worker in setting.workers[:_MOST_WORKERS]:
        table.add_row(escape(f"{worker.rank} {worker.device}"), *_cells(worker.phases), *_own(worker))
    left = len(setting.workers) - _MOST_WORKERS
    if left > 0:
        table.add_row(f"… {left} more: --json")
    return table


def _cells(phases: Phases) -> list[str]:
    return [f"{seconds * 1e3:.1f}\n{seconds / phases.total:.0%}" for _, seconds in phases]


def _own(worker: Worker) -> tuple[str, str]:
    """The cells for how late the worker arrives and how much of its cores it used."""
    late = "" if worker.late_seconds is None else f"{worker.late_seconds * 1e3:+.1f}"
    used = "" if worker.utilisation_percent is None else f"{worker.utilisation_percent:.0f}%"
    return late, used


def _gap(gap: Gap) -> Table:
    """The components of the gap to ideal; their shares add up to 100 %."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("gap to ideal", "ms per step", "share of the gap"):
        table.add_column(heading, justify="left" if heading == "gap to ideal" else "right")
    shares = gap.shares_percent
    for name, seconds in sorted(gap.components.items(), key=lambda item: -item[1]):
        if abs(seconds) >= 5e-6 or shares[name]:
            table.add_row(LABELS[name], f"{seconds * 1e3:+.2f}", f"{shares[name]} %")
    table.add_row("total", f"{gap.seconds * 1e3:+.2f}", "100 %", style="bold")
    return table


def _gains(gap: Gap) -> Iterator[str]:
    """Explain negative shares: some phases take less time than ideal."""
    if gap.gained_seconds >= 0.01 * gap.seconds:
        lost = gap.seconds + gap.gained_seconds
        yield f"  Some parts lose {ms(lost)}; the others take {ms(gap.gained_seconds)} less than ideal."


def _exchange(setting: MeasuredSetting) -> str:
    if setting.hidden_seconds is None:
        return ""
    exposed = setting.phases.exchange
    return f"Communication: {ms(setting.hidden_seconds)} overlapped with backward, {ms(exposed)} exposed. "


def _wall(setting: MeasuredSetting) -> str:
    """Describe the wall time and how the part outside training divides."""
    parts = wall_seconds(setting)
    total, training = sum(parts.values()), parts["timed"] + parts["warm_up"]
    beyond = {name.replace("_", "-"): parts[name] for name in ("start_up", "validation", "checkpoints")}
    rest = total - training
    summary = f"Wall time {human_seconds(total)}: training {percent(training / total)}"
    summary += f" (warm-up {percent(parts['warm_up'] / total)})"
    if rest <= 0:
        return f"{summary}."
    divided = ", ".join(f"{name} {percent(seconds / rest)}" for name, seconds in beyond.items() if seconds > 0)
    return f"{summary}; the other {human_seconds(rest)}: {divided}."

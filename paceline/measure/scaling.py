"""Speed-up and efficiency relative to one worker, and whether a setting loses time, all settings considered."""

import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from paceline.measure.emulation import host_was_limit
from paceline.measure.ratios import rate_of, rate_over, ratio_of, turn_of, turn_ratios, why_not_known
from paceline.measure.stats import Figure
from paceline.record import Record
from paceline.settings import Baseline, Role
from paceline.spec import with_baseline

_IMPOSSIBLE = 1.05
_REPEATS_APART = 0.10

Scaling = Literal["weak", "strong"]
Setting = tuple[Record, ...]


@dataclass(frozen=True)
class ScalingRow:
    """One setting in a scaling table."""

    records: Setting
    """Repeats: the same settings except `turn`, in order of turn."""

    throughput: Figure
    """The mean over the repeats."""

    scaling: Scaling | None
    """Weak: the baseline has the batch of one worker; strong: of all workers. None for one worker or no baseline."""

    ideal: float | None
    """Sum of the used devices' one-worker rates; None where there is no baseline or its rate is not known."""

    speedup: Figure | None
    """Relative to one worker on one device; None where there is no baseline or the ratio is not known."""

    efficiency: Figure | None
    """Share of the ideal rate. Devices that only host servers count. None where `speedup` is None."""

    baseline: Setting
    """The repeats of one worker alone; empty where there are none."""

    notes: tuple[str, ...]
    """Remarks on the figures for the user."""

    not_known: str | None = None
    """Why the speed-up is not known, or the rate where there is no baseline, and what to do; None where it is."""

    below_ideal: bool | None = None
    """Whether efficiency is below 100 % beyond noise: its interval, corrected for the number of settings compared with
    a baseline, excludes 100 %. None without an interval."""


def scaling_rows(records: Sequence[Record], *, scaling: Scaling | None = None) -> list[ScalingRow]:
    """One row per setting, in order of first appearance, each compared with one worker alone on one device.

    Without `scaling` a baseline with one worker's batch (weak) is preferred to one with the batch of all (strong).
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_setting(record), []).append(record)
    settings = [tuple(sorted(group, key=turn_of)) for group in groups.values()]
    alone = [setting for setting in settings if _is_alone(setting[0])]
    rows = [_row(setting, alone, (scaling,) if scaling else ("weak", "strong")) for setting in settings]
    compared = sum(row.speedup is not None and row.baseline is not row.records for row in rows)
    return [_with_host(_judged(row, compared), records) for row in rows]


def _judged(row: ScalingRow, compared: int) -> ScalingRow:
    """Decide whether the setting loses time; of all settings that lose none, 5 % of studies accuse one."""
    if row.speedup is None or row.speedup.spread is None or row.baseline is row.records:
        return row
    ratio, _ = ratio_of(row.records, row.baseline, comparisons=compared)
    if ratio is None or ratio.high is None:
        return row
    return replace(row, below_ideal=ratio.high / row.records[0].devices < 1)


def _with_host(row: ScalingRow, records: Sequence[Record]) -> ScalingRow:
    """Mark figures where the host limited the run or its baseline instead of the emulated devices."""
    limit, of_baseline = host_was_limit(row.records, records), host_was_limit(row.baseline, records)
    if limit is None and of_baseline is None:
        return row
    throughput = replace(row.throughput, host_limited=True) if limit is not None else row.throughput
    speedup, efficiency = (f and replace(f, host_limited=True) for f in (row.speedup, row.efficiency))
    note = limit or f"In the one-worker run: {of_baseline}"
    return replace(row, throughput=throughput, speedup=speedup, efficiency=efficiency, notes=(*row.notes, note))


def _row(setting: Setting, alone: Sequence[Setting], scalings: Sequence[Scaling]) -> ScalingRow:
    rate, devices = rate_over(setting), setting[0].devices
    baseline, scaling, notes = _baseline(setting, alone, scalings)
    notes += [*_repeat_notes(setting), *_mixed_notes(setting[0])]
    of_rate = why_not_known(setting)
    notes += [] if of_rate is None else [f"The rate is not known: {of_rate}"]
    if baseline is None:
        return ScalingRow(setting, rate, None, None, None, None, (), tuple(notes), of_rate)
    base = rate_over(baseline)
    ideal = devices * base.value if base.known else None
    speedup: Figure | None = Figure(1.0, 1.0, 1.0) if base.known else None
    if baseline is not setting:
        speedup, about = ratio_of(setting, baseline)
        notes += about
    if speedup is None or of_rate is not None or not base.known:
        why = of_rate or _why_no_ratio(setting, baseline)
        notes += [] if of_rate is not None else [f"The speed-up is not known: {why}"]
        return ScalingRow(setting, rate, scaling, ideal, None, None, baseline, tuple(notes), why)
    efficiency = speedup.scaled(1 / devices)
    if efficiency.value > _IMPOSSIBLE:
        notes += _impossible(efficiency)
        speedup, efficiency = replace(speedup, impossible=True), replace(efficiency, impossible=True)
    return ScalingRow(setting, rate, scaling, ideal, speedup, efficiency, baseline, tuple(notes))


def _why_no_ratio(setting: Setting, baseline: Setting) -> str:
    if not turn_ratios(setting, baseline):
        return "no turn has both this run and one worker alone. Run the missing ones."
    of_baseline = why_not_known(baseline)
    if of_baseline is not None:
        return f"the rate of one worker alone is not known: {of_baseline}"
    return (
        "its ratio to one worker alone has a 95 % interval of more than 2x. Take more turns (--repeats), on a quieter "
        "machine."
    )


def _baseline(
    setting: Setting, alone: Sequence[Setting], scalings: Sequence[Scaling]
) -> tuple[Setting | None, Scaling | None, list[str]]:
    """The most similar baseline, then the fastest, so that no speed-up looks better than it is."""
    run, elsewhere = setting[0], []
    workers = run.spec.workers
    turns = {turn_of(record) for record in setting}
    for scaling in scalings:
        batch = run.batch * (workers if scaling == "strong" else 1)
        alike = [b for b in alone if b[0].batch == batch and _is_alike(b[0], run)]
        comparable = [b for b in alike if not any(unlike(b[0], run))]
        if comparable:
            best = max(comparable, key=lambda b: (b is setting, *_nearness(b, run, turns), rate_over(b).value))
            return best, scaling if workers > 1 else None, []
        elsewhere += alike
    if not elsewhere:
        return None, None, []
    why = "; ".join(unlike(elsewhere[0][0], run))
    return None, None, [f"Not compared with the one-worker run: {why}."]


def _nearness(baseline: Setting, run: Record, turns: Set[int]) -> tuple[bool, int]:
    """Sort key: equal slow motion first, then most turns in common."""
    preferred = with_baseline(Baseline.PREFERRED)
    alike = all(getattr(baseline[0].spec, name) == getattr(run.spec, name) for name in preferred)
    return alike, len(turns & {turn_of(record) for record in baseline})


def _is_alone(record: Record) -> bool:
    """Whether this is one worker on one device without communication."""
    return record.spec.is_alone and record.devices == 1


def _is_alike(first: Record, second: Record) -> bool:
    """Whether one can be the baseline of the other; weak and strong scaling compare the batch separately."""
    same = with_baseline(Baseline.SAME)
    return all(getattr(first.spec, name) == getattr(second.spec, name) for name in same if name != "batch")


def unlike(first: Record, second: Record) -> Iterator[str]:
    """The facts that make two records incomparable: machine, versions, workload, data."""
    ours, theirs = _must_share(first), _must_share(second)
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield f"{name} differs ({ours.get(name)} and {theirs.get(name)})"


def _must_share(record: Record) -> dict[str, str | int | None]:
    facts = record.workload
    return {
        "workload": record.spec.workload,
        **record.environment.place,
        "parameters": facts.parameters,
        "data source": facts.data.source,
        "data generated": facts.data.generated,
    }


def _setting(record: Record) -> str:
    """A key that all repeats of one setting share."""
    shared = [record.spec.by_role(Role.IDENTITY), _must_share(record), record.devices]
    return json.dumps(shared, sort_keys=True, default=str)


def _repeat_notes(setting: Sequence[Record]) -> list[str]:
    rates = [rate_of(record).value for record in setting]
    apart = max(rates) / min(rates) - 1
    if apart <= _REPEATS_APART:
        return []
    return [
        f"Repeats differ by up to {apart:.0%}: the machine's pace changed between runs. "
        "Stop other work on it, or take more turns."
    ]


def _mixed_notes(record: Record) -> list[str]:
    """A note where nodes have different devices."""
    devices = list(dict.fromkeys(device.device for device in (record.emulation.devices if record.emulation else ())))
    if len(devices) < 2:
        return []
    return [f"The nodes have different devices ({', '.join(devices)}): the ideal assumes those of the first node."]


def _impossible(efficiency: Figure) -> list[str]:
    if efficiency.low is not None and efficiency.low <= 1:
        why = "its interval includes 100 %, so this may be chance. Take more turns."
    else:
        why = "one worker alone did not use its device fully, or the machine's pace changed between the runs."
    return [f"Efficiency {efficiency.value:.0%} is more than the devices can deliver: {why}"]

"""Speed-up and efficiency relative to one worker, and whether one setting is faster than another."""

import json
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from paceline.measure.emulation import host_was_limit
from paceline.measure.ratios import rate_of, rate_over, ratio_of, turn_of
from paceline.measure.stats import Figure
from paceline.record import Record
from paceline.settings import Baseline, Role
from paceline.spec import BASELINE_STRATEGY, with_baseline

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
    """Sum of the used devices' one-worker rates; None where there is no baseline."""

    speedup: Figure | None
    """Relative to one worker on one device."""

    efficiency: Figure | None
    """Share of the ideal rate. Devices that only host servers count."""

    baseline: Setting
    """The repeats of one worker alone; empty where there are none."""

    notes: tuple[str, ...]
    """Remarks on the figures for the user."""


@dataclass(frozen=True)
class Difference:
    """Whether one setting is faster than another."""

    ratio: Figure | None
    """Rate of the first ÷ rate of the second; None where they were not compared."""

    seen: bool
    """Whether the 95 % interval of the ratio excludes 1; for equal settings chance does this once in twenty."""

    verdict: str
    notes: tuple[str, ...]


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
    return [_with_host(row, records) for row in rows]


def _with_host(row: ScalingRow, records: Sequence[Record]) -> ScalingRow:
    """Mark figures where the host limited the run or its baseline instead of the emulated devices."""
    limit, of_baseline = host_was_limit(row.records, records), host_was_limit(row.baseline, records)
    if limit is None and of_baseline is None:
        return row
    throughput = replace(row.throughput, host_limited=True) if limit is not None else row.throughput
    speedup, efficiency = (f and replace(f, host_limited=True) for f in (row.speedup, row.efficiency))
    note = limit or f"In the one-worker run: {of_baseline}"
    return replace(row, throughput=throughput, speedup=speedup, efficiency=efficiency, notes=(*row.notes, note))


def difference(first: Sequence[Record], second: Sequence[Record]) -> Difference:
    """Whether `first`, repeats of one setting, is faster or slower than `second`.

    With five turns and runs that vary by 1 %, a difference of 3 % is detected in more than nine of ten studies.
    """
    unlike = dict.fromkeys(text for a in first for b in second for text in _unlike(a, b))
    if unlike:
        return Difference(None, False, "not compared", (f"Not compared: {'; '.join(unlike)}.",))
    ratio, notes = ratio_of(first, second)
    return Difference(ratio, _leaves_out_one(ratio), _verdict(ratio), tuple(notes))


def _verdict(ratio: Figure) -> str:
    if ratio.low is None or ratio.high is None or not _leaves_out_one(ratio):
        return "not measurably different"
    word = "faster" if ratio.value > 1 else "slower"
    near, far = sorted((abs(ratio.low - 1), abs(ratio.high - 1)))
    return f"{abs(ratio.value - 1):.1%} {word} ({near:.1%} to {far:.1%})"


def _leaves_out_one(ratio: Figure) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high


def _row(setting: Setting, alone: Sequence[Setting], scalings: Sequence[Scaling]) -> ScalingRow:
    rate, devices = rate_over(setting), setting[0].devices
    baseline, scaling, notes = _baseline(setting, alone, scalings)
    notes += [*_repeat_notes(setting), *_mixed_notes(setting[0])]
    if baseline is None:
        return ScalingRow(setting, rate, None, None, None, None, (), tuple(notes))
    speedup = Figure(1.0, 1.0, 1.0)
    if baseline is not setting:
        speedup, about = ratio_of(setting, baseline)
        notes += about
    efficiency = _divided(speedup, devices)
    notes += _impossible(efficiency)
    ideal = devices * rate_over(baseline).value
    return ScalingRow(setting, rate, scaling, ideal, speedup, efficiency, baseline, tuple(notes))


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
        comparable = [b for b in alike if not any(_unlike(b[0], run))]
        if comparable:
            best = max(comparable, key=lambda b: (b is setting, *_nearness(b, run, turns), rate_over(b).value))
            return best, scaling if workers > 1 else None, []
        elsewhere += alike
    if not elsewhere:
        return None, None, []
    why = "; ".join(_unlike(elsewhere[0][0], run))
    return None, None, [f"Not compared with the one-worker run: {why}."]


def _nearness(baseline: Setting, run: Record, turns: Set[int]) -> tuple[bool, int]:
    """Sort key: equal slow motion first, then most turns in common."""
    preferred = with_baseline(Baseline.PREFERRED)
    alike = all(getattr(baseline[0].spec, name) == getattr(run.spec, name) for name in preferred)
    return alike, len(turns & {turn_of(record) for record in baseline})


def _is_alone(record: Record) -> bool:
    """Whether this is one worker on one device without communication."""
    return record.spec.workers == 1 and record.devices == 1 and record.spec.strategy == BASELINE_STRATEGY


def _is_alike(first: Record, second: Record) -> bool:
    """Whether one can be the baseline of the other; weak and strong scaling compare the batch separately."""
    same = with_baseline(Baseline.SAME)
    return all(getattr(first.spec, name) == getattr(second.spec, name) for name in same if name != "batch")


def _unlike(first: Record, second: Record) -> Iterator[str]:
    """The facts that make two records incomparable: machine, versions, workload, data."""
    ours, theirs = _must_share(first), _must_share(second)
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield f"{name} differs ({ours.get(name)} and {theirs.get(name)})"


def _must_share(record: Record) -> dict[str, object]:
    facts = record.workload
    data = {"parameters": facts.parameters, "data source": facts.data.source, "data generated": facts.data.generated}
    return {"workload": record.spec.workload, **record.environment.place, **data}


def _setting(record: Record) -> str:
    """A key that all repeats of one setting share."""
    shared = [record.spec.by_role(Role.IDENTITY), _must_share(record), record.devices]
    return json.dumps(shared, sort_keys=True, default=str)


def _divided(figure: Figure, devices: int) -> Figure:
    low, high = (None if end is None else end / devices for end in (figure.low, figure.high))
    return Figure(figure.value / devices, low, high)


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
    if efficiency.value <= _IMPOSSIBLE:
        return []
    if efficiency.low is not None and efficiency.low <= 1:
        why = "its interval includes 100 %, so this may be chance. Take more turns."
    else:
        why = "one worker alone did not use its device fully, or the machine's pace changed between the runs."
    return [f"Efficiency {efficiency.value:.0%} is more than the devices can deliver: {why}"]

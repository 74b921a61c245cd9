"""Checks on a table's figures alone: whether they are consistent with one another, and possible."""

from collections.abc import Iterator, Mapping, Sequence

from paceline.numbers import significant
from paceline.references.base import Reference, Row, Series
from paceline.references.findings import Band, Remark, at_workers, band, listed

# Median and mean of a steady run differ by less; counting 20 steps over 19 intervals makes a difference of 5 %.
_RATES_APART = 0.02
_IMPOSSIBLE = 1.05
# How far rates per worker of rows that agree may differ.
_ALIKE = 1.5
_ROUNDING = 0.001
_MOSTLY_OTHER = 0.5


def speedups(series: Series, _: Reference) -> Iterator[Remark]:
    """Speed-up × rate of one worker = rate. Without that rate all rows must agree on one."""
    implied = {
        row: (band(series, row, "throughput") / band(series, row, "speedup")).widened(_ROUNDING)
        for row in series.rows
        if row.throughput is not None and row.speedup is not None
    }
    alone = {row: _alone(series, row) for row in implied}
    wrong = [row for row, rate in implied.items() if (one := alone[row]) and not one.meets(rate)]
    if wrong:
        odd = _odd_baseline(series, wrong, implied)
        yield Remark("fault", _unlike_baseline(series, wrong) + _names(odd), (*wrong, *odd))
    free = {row: rate for row, rate in implied.items() if alone[row] is None and row.workers != 1}
    yield from _disagree("speed-ups", "speed-up", free, [_implied(row) for row in free])


def _alone(series: Series, row: Row) -> Band | None:
    baseline = series.baseline(row)
    if baseline is None or baseline.throughput is None:
        return None
    return band(series, baseline, "throughput")


def _implied(row: Row) -> float:
    assert row.throughput is not None
    assert row.speedup is not None
    return row.throughput / row.speedup


def _odd_baseline(series: Series, wrong: Sequence[Row], implied: Mapping[Row, Band]) -> tuple[Row, ...]:
    """The one row of one worker, where all others contradict it and agree with one another; otherwise nothing."""
    others = [row for row in implied if row.used_devices != 1]
    if len(series.alone) != 1 or len(others) < 2 or set(others) - set(wrong):
        return ()
    agree = max(implied[row].low for row in others) <= min(implied[row].high for row in others)
    return series.alone if agree else ()


def _names(odd: Sequence[Row]) -> str:
    return " These rows agree with one another: the row of 1 worker is the odd one." if odd else ""


def _disagree(nouns: str, noun: str, implied: Mapping[Row, Band], rates: Sequence[float]) -> Iterator[Remark]:
    """Without a row of one worker, all rows must agree on its rate."""
    if implied and max(r.low for r in implied.values()) > min(r.high for r in implied.values()):
        yield Remark(
            "fault",
            f"The {nouns} {at_workers(implied)} are inconsistent: speed ÷ {noun}, the rate of one worker, ranges "
            f"from {significant(min(rates))} to {significant(max(rates))}.",
            tuple(implied),
        )


def _unlike_baseline(series: Series, rows: list[Row]) -> str:
    corrected = [f"{row.speedup}× is {significant(series.speedup(row) or 0)}×" for row in rows]
    alone = series.rate(series.baseline(rows[0]) or rows[0])
    implied = listed(list(dict.fromkeys(significant(_implied(row)) for row in rows)))
    return (
        f"Speed-ups do not follow from the speeds {at_workers(rows)}: by the speeds, {listed(corrected)}. They imply "
        f"{implied} for one worker, but the table has {significant(alone or 0)}."
    )


def efficiencies(series: Series, _: Reference) -> Iterator[Remark]:
    """Efficiency × devices = speed-up. Without a speed-up all rows must agree on the rate of one worker."""
    wrong = []
    implied: dict[Row, Band] = {}
    for row in series.rows:
        speedup, devices = series.speedup(row), row.used_devices
        if row.efficiency is None or devices is None:
            continue
        published = band(series, row, "efficiency")
        if row.throughput is not None:
            times = Band(devices * published.low, devices * published.high)
            implied[row] = (band(series, row, "throughput") / times).widened(_ROUNDING)
        if speedup is not None and not published.meets(Band(speedup / devices, speedup / devices).widened(_ROUNDING)):
            wrong.append(row)
    if wrong:
        corrected = [
            f"{row.efficiency:.1%} is {series.efficiency(row):.1%} with {row.used_devices:g} devices" for row in wrong
        ]
        odd = _odd_baseline(series, wrong, implied)
        sentence = f"Efficiencies do not follow from the speed-ups: {listed(corrected)}.{_names(odd)}"
        yield Remark("fault", sentence, (*wrong, *odd))
    free = {row: rate for row, rate in implied.items() if series.speedup(row) is None}
    per_share = [(row.throughput or 0) / (row.efficiency or 1) / (row.used_devices or 1) for row in free]
    yield from _disagree("efficiencies", "(efficiency × devices)", free, per_share)


def possible(series: Series, _: Reference) -> Iterator[Remark]:
    """Efficiency above 100 % is not possible, unless one worker left part of its device idle."""
    known = [(row, max(e for e in both if e is not None)) for row in series.rows if any(both := _both(series, row))]
    beyond = {row: efficiency for row, efficiency in known if efficiency > _IMPOSSIBLE}
    if slow := _slow_baseline(series, [row for row, _ in known], beyond):
        rates = [(series.rate(row) or 0) / (row.used_devices or 1) for row in beyond]
        yield Remark(
            "fault",
            f"Efficiencies of {min(beyond.values()):.0%} to {max(beyond.values()):.0%} {at_workers(beyond)} are more "
            f"than the devices can deliver. These rows agree with one another: the row of 1 worker is the odd one. It "
            f"has {significant(series.rate(slow) or 0)}, each worker of the others {significant(min(rates))} to "
            f"{significant(max(rates))}.",
            (slow, *beyond),
        )
        return
    for row, efficiency in beyond.items():
        yield _beyond(series, row, efficiency)


def _both(series: Series, row: Row) -> tuple[float | None, float | None]:
    return series.efficiency(row), row.efficiency


def _slow_baseline(series: Series, known: Sequence[Row], beyond: Mapping[Row, float]) -> Row | None:
    """The one row of one worker, where all others are impossible beside it and alike; otherwise None."""
    others = [row for row in known if row.used_devices != 1]
    certain = all(row.efficiency_low is None and (row.workers_per_device or 1) == 1 for row in others)
    if len(series.alone) != 1 or len(others) < 2 or len(beyond) != len(others) or not certain:
        return None
    rates = [series.rate(row) for row in others]
    each = [rate / (row.used_devices or 1) for rate, row in zip(rates, others, strict=True) if rate]
    alike = len(each) == len(others) and max(each) <= _ALIKE * min(each)
    return series.alone[0] if alike else None


def _beyond(series: Series, row: Row, efficiency: float) -> Remark:
    """What an efficiency above 100 % means at one row."""
    excess = f"Efficiency {efficiency:.0%} {at_workers([row])} is more than the devices can deliver"
    sharing = row.workers is not None and row.used_devices is not None and row.workers > row.used_devices
    baseline = series.baseline(row)
    busy = baseline.utilisation_percent if baseline is not None else None
    if row.efficiency_low is not None and row.efficiency_low <= 1:
        return Remark("warning", f"{excess}; its interval includes 100 %, so this may be chance.", (row,))
    if not sharing:
        return Remark("fault", f"{excess}: a speed, a count of devices or the baseline is wrong.", (row,))
    if busy is None:
        rule = "unless one worker alone left its device idle, which the table does not state"
        return Remark("warning", f"{excess}, {rule}.", (row,))
    if efficiency <= _IMPOSSIBLE * 100 / busy:
        return Remark(
            "note",
            f"Efficiency {efficiency:.0%} {at_workers([row])} that share devices is relative to one worker that "
            f"used {busy:g} % of its device: about {100 / busy:.0%} is possible.",
            (row,),
        )
    return Remark("fault", f"{excess}: one worker used {busy:g} %, so at most {100 / busy:.0%}.", (row,))


def devices(series: Series, _: Reference) -> Iterator[Remark]:
    """Workers = devices × workers per device, and no rank beyond the workers."""
    for row in series.rows:
        if row.workers is None:
            continue
        if row.devices and row.workers_per_device and row.workers > row.devices * row.workers_per_device:
            yield Remark(
                "fault",
                f"{row.workers} workers do not fit: {row.devices} devices × {row.workers_per_device} workers per "
                f"device are {row.devices * row.workers_per_device}.",
                (row,),
            )
        if row.ranks and max(row.ranks) >= row.workers:
            yield Remark(
                "warning",
                f"The log of the run with {row.workers} workers shows rank {max(row.ranks)}; its ranks end at "
                f"{row.workers - 1}.",
                (row,),
            )


def samples(series: Series, _: Reference) -> Iterator[Remark]:
    """Samples = epochs × data set, times the workers where each processes the whole data set."""
    method = series.method
    if method.dataset_samples is None or method.shard is None:
        return
    for row in series.rows:
        if row.samples is None or row.epochs is None or row.workers is None:
            continue
        passes = row.epochs * (1 if method.shard else row.workers)
        expected = passes * method.dataset_samples
        if abs(expected - row.samples) > _ROUNDING * expected:
            yield Remark(
                "fault",
                f"Samples do not add up {at_workers([row])}: {passes:g} passes over {method.dataset_samples:,} are "
                f"{expected:,.0f}, not {row.samples:,}.",
                (row,),
            )


def rates(series: Series, _: Reference) -> Iterator[Remark]:
    """Throughput = steps × batch × workers × units ÷ seconds; unknown units per sample are equal in all rows."""
    counted = {row: rate for row in series.rows if row.throughput and (rate := series.counted_rate(row))}
    if not counted:
        return
    ratios = sorted((row.throughput or 0) / rate for row, rate in counted.items())
    unit = 1.0 if series.units_per_sample is not None else ratios[len(ratios) // 2]
    wrong = {row: unit * rate for row, rate in counted.items() if _apart(row.throughput or 0, unit * rate)}
    for row, rate in wrong.items():
        yield Remark(
            "fault",
            f"The speed {at_workers([row])} does not match work and time: {_work(row)} give {significant(rate)}, "
            f"not {significant(row.throughput or 0)} ({(row.throughput or 0) / rate - 1:+.1%}).",
            (row,),
        )


def _work(row: Row) -> str:
    if row.steps is not None and row.seconds is not None:
        return f"{row.steps} steps × {row.whole_batch} samples in {row.seconds:g} s"
    return f"{row.whole_batch} samples in {row.step_seconds:g} s per step"


def _apart(first: float, second: float) -> bool:
    return abs(first / second - 1) > _RATES_APART


def times(series: Series, _: Reference) -> Iterator[Remark]:
    """Samples at the published speed must fit into the time of the run; a note reports where they fill little of it."""
    units = series.units_per_sample
    if units is None:
        return
    shares = {
        row: row.samples * units / row.throughput / row.seconds
        for row in series.rows
        if row.steps is None and row.samples and row.seconds and row.throughput
    }
    for row, share in shares.items():
        if share > 1 + _RATES_APART:
            yield Remark(
                "fault",
                f"{row.samples:,} samples at {significant(row.throughput or 0)}/s take "
                f"{share * (row.seconds or 0):.1f} s {at_workers([row])}, but the run took {row.seconds:g} s.",
                (row,),
            )
    if shares and (least := min(shares, key=lambda row: shares[row])) and shares[least] < _MOSTLY_OTHER:
        few = tuple(row for row, share in shares.items() if share < _MOSTLY_OTHER)
        yield Remark(
            "note",
            f"The speed explains little of the time {at_workers([least])}: {least.samples:,} samples take "
            f"{shares[least] * (least.seconds or 0):.1f} s of {least.seconds:g} s; the rest is overhead.",
            few,
        )

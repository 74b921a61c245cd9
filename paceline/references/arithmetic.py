"""Checks on a table's figures alone: whether they are consistent with one another, and possible."""

from collections.abc import Iterator

from paceline.numbers import significant
from paceline.references.base import Reference, Row, Series
from paceline.references.findings import Band, Remark, at_workers, band, listed

# Median and mean of a steady run differ by less; counting 20 steps over 19 intervals makes a difference of 5 %.
_RATES_APART = 0.02
_IMPOSSIBLE = 1.05
_ROUNDING = 0.001
_MOSTLY_OTHER = 0.5


def speedups(series: Series, _: Reference) -> Iterator[Remark]:
    """Speed-up × rate of one worker = rate. Without that rate all rows must agree on one."""
    implied = {
        row: (band(series, row, "throughput") / band(series, row, "speedup")).widened(_ROUNDING)
        for row in series.rows
        if row.throughput is not None and row.speedup is not None
    }
    wrong = [row for row, rate in implied.items() if (alone := _alone(series, row)) and not alone.meets(rate)]
    if wrong:
        yield Remark("fault", _unlike_baseline(series, wrong), tuple(wrong))
    free = {row: rate for row, rate in implied.items() if _alone(series, row) is None and row.workers != 1}
    if free and max(r.low for r in free.values()) > min(r.high for r in free.values()):
        rates = [_implied(row) for row in free]
        yield Remark(
            "fault",
            f"The speed-ups {at_workers(free)} are inconsistent: speed ÷ speed-up, the rate of one worker, ranges "
            f"from {significant(min(rates))} to {significant(max(rates))}.",
            tuple(free),
        )


def _alone(series: Series, row: Row) -> Band | None:
    baseline = series.baseline(row)
    if baseline is None or baseline.throughput is None:
        return None
    return band(series, baseline, "throughput")


def _implied(row: Row) -> float:
    assert row.throughput is not None
    assert row.speedup is not None
    return row.throughput / row.speedup


def _unlike_baseline(series: Series, rows: list[Row]) -> str:
    corrected = [f"{row.speedup}× is {significant(series.speedup(row) or 0)}×" for row in rows]
    alone = series.rate(series.baseline(rows[0]) or rows[0])
    implied = listed(list(dict.fromkeys(significant(_implied(row)) for row in rows)))
    return (
        f"Speed-ups do not follow from the speeds {at_workers(rows)}: by the speeds, {listed(corrected)}. They imply "
        f"{implied} for one worker, but the table has {significant(alone or 0)}."
    )


def efficiencies(series: Series, _: Reference) -> Iterator[Remark]:
    """Efficiency × devices = speed-up."""
    wrong = []
    for row in series.rows:
        speedup, devices = series.speedup(row), row.used_devices
        if row.efficiency is None or speedup is None or devices is None:
            continue
        published = band(series, row, "efficiency")
        if not published.meets(Band(speedup / devices, speedup / devices).widened(_ROUNDING)):
            wrong.append(row)
    if wrong:
        corrected = [
            f"{row.efficiency:.1%} is {series.efficiency(row):.1%} with {row.used_devices:g} devices" for row in wrong
        ]
        yield Remark("fault", f"Efficiencies do not follow from the speed-ups: {listed(corrected)}.", tuple(wrong))


def possible(series: Series, _: Reference) -> Iterator[Remark]:
    """Efficiency above 100 % is not possible, unless one worker left part of its device idle."""
    for row in series.rows:
        computed, published = series.efficiency(row), row.efficiency
        efficiency = max((e for e in (computed, published) if e is not None), default=0)
        if efficiency <= _IMPOSSIBLE:
            continue
        excess = f"Efficiency {efficiency:.0%} {at_workers([row])} is more than the devices can deliver"
        sharing = row.workers is not None and row.used_devices is not None and row.workers > row.used_devices
        baseline = series.baseline(row)
        busy = baseline.utilisation_percent if baseline is not None else None
        if row.efficiency_low is not None and row.efficiency_low <= 1:
            yield Remark("warning", f"{excess}; its interval includes 100 %, so this may be chance.", (row,))
        elif not sharing:
            yield Remark("fault", f"{excess}: a speed, a count of devices or the baseline is wrong.", (row,))
        elif busy is None:
            yield Remark(
                "warning",
                f"{excess}, unless one worker alone left its device idle, which the table does not state.",
                (row,),
            )
        elif efficiency <= _IMPOSSIBLE * 100 / busy:
            yield Remark(
                "note",
                f"Efficiency {efficiency:.0%} {at_workers([row])} that share devices is relative to one worker that "
                f"used {busy:g} % of its device: about {100 / busy:.0%} is possible.",
                (row,),
            )
        else:
            yield Remark("fault", f"{excess}: one worker used {busy:g} %, so at most {100 / busy:.0%}.", (row,))


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

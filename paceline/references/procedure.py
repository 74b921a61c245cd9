"""Checks on how a table was measured, as far as its source describes it."""

import math
from collections.abc import Iterator

from paceline.numbers import significant
from paceline.references.base import Reference, Row, Series
from paceline.references.findings import Remark, at_workers, listed

_INDEPENDENT_LEAST = 0.9


def window(series: Series, _: Reference) -> Iterator[Remark]:
    """Only steady steps should be timed."""
    if not series.method.window_includes:
        return
    timed = [row for row in series.rows if row.steps and row.seconds]
    what = listed(series.method.window_includes)
    length = ""
    if timed:
        first, last = timed[0], timed[-1]
        length = f" of {first.steps} steps, {first.seconds:g} s {at_workers([first])} and {last.seconds:g} s "
        length += at_workers([last])
    yield Remark(
        "fault",
        f"The timed window{length} includes {what}: speeds are too low, and speed-ups are distorted.",
        series.rows,
    )


def intervals(series: Series, _: Reference) -> Iterator[Remark]:
    """The number of counted steps should equal the number of timed steps."""
    counted, timed = series.method.steps_counted, series.method.steps_timed
    if counted is None or timed is None or counted == timed:
        return
    yield Remark(
        "fault",
        f"{counted} steps are counted over the time of {timed}: speeds are {abs(counted / timed - 1):.2%} too "
        f"{'high' if counted > timed else 'low'}. Speed-ups are not affected if one worker was counted alike.",
        series.rows,
    )


def every_worker(series: Series, _: Reference) -> Iterator[Remark]:
    """The rate should be measured over all workers, not that of one times their number."""
    method = series.method
    one = {
        "rank 0": [row for row in series.rows if (row.workers or 1) > 1],
        "first process": [row for row in series.rows if (row.nodes or 1) > 1],
    }.get(method.rate_from or "", [])
    if not one:
        return
    most = max((row.nodes if method.rate_from == "first process" else row.workers) or 1 for row in one)
    yield Remark(
        "fault",
        f"The speed is the {method.statistic or 'rate'} of {_whose(series)} times up to {most}: slower ones are not "
        "in it" + (", nor are slow steps." if method.statistic == "median" else "."),
        tuple(one),
    )


def _whose(series: Series) -> str:
    return "rank 0's rate" if series.method.rate_from == "rank 0" else "the first node's rate"


def last_batch(series: Series, _: Reference) -> Iterator[Remark]:
    """The last batch of an epoch should count only the samples that it holds."""
    method = series.method
    if not method.last_batch_counted_whole or method.dataset_samples is None:
        return
    over: dict[Row, tuple[int, float]] = {}
    for row in series.rows:
        if row.batch is None or row.workers is None:
            continue
        own = math.ceil(method.dataset_samples / (row.workers if method.shard else 1))
        counted = math.ceil(own / row.batch) * row.batch
        if counted > own:
            over[row] = (own, counted / own - 1)
    if over:
        worst = max(over, key=lambda row: over[row][1])
        own, share = over[worst]
        yield Remark(
            "warning",
            f"The last batch of an epoch holds {own % (worst.batch or 1)} samples and is counted as {worst.batch}: "
            f"{share:+.2%} samples {at_workers([worst])}.",
            tuple(over),
        )


def summed_gradients(series: Series, reference: Reference) -> Iterator[Remark]:
    """Summed gradients make updates grow with the workers, unless the learning rate falls accordingly."""
    method = series.method
    if method.reduction != "sum":
        return
    others = [
        other.label
        for other in reference.series
        if other.method.reduction == "mean" and other.workload is not None and other.workload == series.workload
    ]
    if others:
        yield Remark(
            "warning",
            f"Gradients are summed here but averaged in {listed(others)}: at the same learning rate the two train "
            "differently, so only their speeds can be compared.",
            series.rows,
        )
    elif method.lr_rule in (None, "none"):
        most = max((row.workers or 1 for row in series.rows), default=1)
        size = f", up to {most} times as large as one worker's" if most > 1 else ""
        unless = "" if method.lr_rule else ", unless the learning rate falls with them"
        yield Remark("warning", f"Gradients are summed: updates grow with the workers{size}{unless}.", series.rows)


def compiled(series: Series, _: Reference) -> Iterator[Remark]:
    """Slow compute hides communication and makes efficiency look better."""
    if series.method.compiled is not False:
        return
    alone = [rate for row in series.alone if (rate := series.rate(row)) is not None]
    pace = f" ({significant(min(alone))} to {significant(max(alone))} {series.unit} for one worker)" if alone else ""
    yield Remark(
        "warning",
        f"The model was not compiled{pace}: slow compute makes communication look small and the efficiency high.",
        series.rows,
    )


def independent(series: Series, _: Reference) -> Iterator[Remark]:
    """Workers without communication scale linearly, unless something else is timed or shared."""
    if not (series.strategy or "").startswith("independent"):
        return
    efficiencies = [
        (row, e) for row in series.rows if (row.workers or 1) > 1 and (e := series.efficiency(row)) is not None
    ]
    if not efficiencies:
        return
    row, efficiency = min(efficiencies, key=lambda item: item[1])
    if efficiency < _INDEPENDENT_LEAST and (row.workers_per_device or 1) == 1:
        yield Remark(
            "warning",
            f"Workers without communication reach only {efficiency:.0%} {at_workers([row])}: the window includes more "
            "than steps, or they share memory, cores or storage. The other series lose as much.",
            (row,),
        )


def remarks(series: Series, _: Reference) -> Iterator[Remark]:
    """Repeat the remarks that were recorded with the rows."""
    noted: dict[str, list[Row]] = {}
    for row in series.rows:
        for text in row.remarks:
            noted.setdefault(text, []).append(row)
    for text, rows in noted.items():
        yield Remark("note", f"{at_workers(rows).capitalize()}: {text}", tuple(rows))

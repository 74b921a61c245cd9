"""Checks on what a table's rows are compared with: baselines, ideals, devices, links, losses."""

import math
from collections.abc import Iterator

from paceline.numbers import significant
from paceline.references.base import Reference, Row, Series
from paceline.references.findings import Remark, at_workers, listed

_FASTER_THAN_LINK = 1.5
_LOSS_RISES = 0.05
_UPDATES_FALL = 0.75


def machines(series: Series, _: Reference) -> Iterator[Remark]:
    """A row must be compared with one worker on the same machine."""
    alone = frozenset(series.alone)
    many = [row for row in series.rows if row.workers is not None and row not in alone]
    named = [row for row in many if row.machine is not None]
    homes = list(dict.fromkeys(row.machine or "" for row in series.alone if row.machine is not None))
    elsewhere = [row for row in named if homes and row.machine not in homes]
    if elsewhere:
        theirs = listed(list(dict.fromkeys(row.machine or "" for row in elsewhere)))
        yield Remark(
            "fault",
            f"The rows {at_workers(elsewhere)} were measured on {theirs}, one worker on {listed(homes)}: a speed-up "
            "across machines is meaningless.",
            tuple(elsewhere),
        )
    elif not homes and len({row.machine for row in named}) > 1:
        theirs = listed(list(dict.fromkeys(row.machine or "" for row in named)))
        yield Remark(
            "fault",
            f"The rows come from different machines ({theirs}) and no row has one worker: nothing can be compared.",
            tuple(many),
        )
    if series.method.same_machines is False:
        yield Remark(
            "warning",
            "The rows were measured on equal machines, but not on the same ones: these may cause part of a difference.",
            series.rows,
        )
    yield from _unnamed(series, many, homes)


def _unnamed(series: Series, many: list[Row], homes: list[str]) -> Iterator[Remark]:
    """Rows that do not name their machine leave open which baseline applies."""
    unnamed = [row for row in many if row.machine is None and series.rate(row) is not None]
    if len(homes) < 2 or not unnamed:
        return
    last = unnamed[-1]
    by_home = {row.machine: (series.rate(last) or 0) / (series.rate(row) or 1) for row in series.alone}
    ratios = ", ".join(f"{significant(ratio)}× against {home}" for home, ratio in by_home.items())
    yield Remark(
        "warning",
        f"The table does not state the machine of the rows {at_workers(unnamed)}, and the baseline depends on it "
        f"({at_workers([last])}: {ratios}).",
        tuple(unnamed),
    )


def settings(series: Series, _: Reference) -> Iterator[Remark]:
    """A row must be compared with one worker that had the same batch, or in strong scaling the global batch."""
    other = [row for row in series.rows if series.alone and not series.has_baseline_of_setting(row)]
    if other:
        theirs = listed(list(dict.fromkeys(str(row.batch or row.whole_batch) for row in other)))
        ours = listed(list(dict.fromkeys(str(row.batch or row.whole_batch) for row in series.alone)))
        yield Remark(
            "fault",
            f"The rows {at_workers(other)} have batch {theirs}, one worker has {ours}: neither weak nor strong "
            "scaling. Measure one worker with the same batch, per worker or in total.",
            tuple(other),
        )


def baseline(series: Series, _: Reference) -> Iterator[Remark]:
    """Without a row of one worker, speed-ups cannot be checked."""
    speeds = [row for row in series.rows if series.rate(row) is not None or row.speedup is not None]
    if speeds and not series.alone:
        yield Remark("note", "There is no row of one worker: speed-ups cannot be checked.", tuple(speeds))


def ideal(series: Series, _: Reference) -> Iterator[Remark]:
    """An ideal line must come from the machine of the results."""
    method = series.method
    if method.ideal_from is not None and method.measured_on is not None and method.ideal_from != method.measured_on:
        yield Remark(
            "fault",
            f"The ideal is drawn from {method.ideal_from}, over results of {method.measured_on}: the distance between "
            "them is not the loss by scaling.",
            series.rows,
        )


def servers(series: Series, _: Reference) -> Iterator[Remark]:
    """Devices that only host servers count as devices."""
    uncounted = [row for row in series.rows if row.uncounted_devices]
    if series.method.servers_counted is not False and not uncounted:
        return
    corrected = [
        f"{efficiency:.0%} {at_workers([row])} with {row.used_devices:g} devices"
        for row in uncounted
        if (efficiency := series.efficiency(row)) is not None
    ]
    figures = f" Efficiency with them: {listed(corrected)}." if corrected else ""
    yield Remark(
        "fault",
        f"Servers had devices of their own, which the table does not count: its efficiency is too high.{figures}",
        tuple(uncounted) or series.rows,
    )


def bandwidth(series: Series, _: Reference) -> Iterator[Remark]:
    """Published times cannot be faster than the link allows."""
    stated, fitted = series.method.bandwidth_bits_per_second, series.method.fitted_bandwidth_bits_per_second
    if stated is not None and fitted is not None and fitted[0] > _FASTER_THAN_LINK * stated:
        yield Remark(
            "fault",
            f"The times follow a link of {fitted[0] / 1e9:g} Gbit/s, but {stated / 1e9:g} Gbit/s is stated: the link "
            "was a different one, or less was sent.",
            series.rows,
        )


def losses(series: Series, _: Reference) -> Iterator[Remark]:
    """Note a loss that rises as updates fall at an unscaled learning rate: fewer updates explain it."""
    if series.method.lr_rule != "none":
        return
    for name, noun in (("val_loss", "validation loss"), ("loss", "loss")):
        known = [(row, u) for row in series.rows if getattr(row, name) is not None and (u := updates(series, row))]
        if len(known) < 2:
            continue
        (most, many), (least, few) = max(known, key=lambda k: k[1]), min(known, key=lambda k: k[1])
        first, last = getattr(most, name), getattr(least, name)
        if (
            (least.workers or 0) > (most.workers or 0)
            and last > first * (1 + _LOSS_RISES)
            and few < many * _UPDATES_FALL
        ):
            fall = f"from {many:,.0f} to {few:,.0f}" if few >= 1 else f"to 1/{many / few:g}"
            yield Remark(
                "note",
                f"The {noun} rises from {significant(first)} {at_workers([most])} to {significant(last)} "
                f"{at_workers([least])} while updates fall {fall} at an unscaled learning rate: fewer updates explain "
                "it without any fault of the exchange.",
                (most, least),
            )
            return


def updates(series: Series, row: Row) -> float | None:
    """Updates of a run; where the size of the data set is unknown, a number proportional to them."""
    if row.updates is not None:
        return row.updates
    method = series.method
    if method.shard is None or row.workers is None or row.epochs is None:
        return None
    together = row.workers if method.shard else 1
    if method.dataset_samples is None or row.batch is None:
        return 1 / together
    return row.epochs * math.ceil(method.dataset_samples / (row.batch * together))

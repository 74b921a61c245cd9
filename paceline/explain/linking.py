"""Cause: one link of a testbed that carries much less than it should."""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.breakdown.comparison import Comparison
from paceline.explain.cause import Cause
from paceline.explain.delays import why
from paceline.measure.links import PAYLOAD_SHARE, SlowLink, link_rate, slow_link
from paceline.numbers import count, ms
from paceline.record import Record
from paceline.units import human_bytes


@dataclass(frozen=True)
class LinkCost:
    """What a slow link costs in a step: the least, since at the usual rate communication may overlap with backward."""

    link: SlowLink
    record: Record
    bytes_per_step: float
    seconds: float
    """Beyond what the link's bytes take at its usual rate."""

    exchange: float
    """Exposed communication that remains at the usual rate."""


def link_cost(case: Comparison) -> LinkCost | None:
    """The slow link and its cost; None where no link is slow, or where it costs nothing noticeable."""
    records = [run.record for run in case.setting.runs]
    found = [(slow, record) for record in records if (slow := slow_link(record.network)) is not None]
    if not found:
        return None
    slow, record = min(found, key=lambda pair: pair[0].bits_per_second)
    carried = _bytes_per_step(slow, record)
    usual, exposed = 8 * carried / slow.usual_bits_per_second, case.excess("exchange")
    seconds = max(0.0, exposed - usual) + _late_by_exchange(case) + _at_times(case)
    return LinkCost(slow, record, carried, seconds, min(usual, exposed)) if case.noticeable(seconds) else None


def _late_by_exchange(case: Comparison) -> float:
    """The delay of a worker that is late because its exchange ends last: a slow link delays the workers behind it."""
    if not case.slow:
        return 0.0
    late = case.slow[0]
    return late.seconds if why(case, case.setting.workers[late.rank], late).phase == "exchange" else 0.0


def _at_times(case: Comparison) -> float:
    """What exchanges cost that are long in some steps only: a link may be slow in a part of the run."""
    return sum(one.cost_seconds for one in case.steps.recurring if one.phase == "exchange")


def slow_links(case: Comparison) -> Iterator[Cause]:
    """Yield the link that holds up the exchange."""
    cost = link_cost(case)
    if cost is None:
        return
    slow, usual = cost.link, link_rate(cost.link.usual_bits_per_second)
    now = link_rate(slow.bits_per_second)
    rates = (
        f"carried {usual} before the run and {now} after it" if slow.changed else f"carries {now}, the others {usual}"
    )
    at_usual = ms(8 * cost.bytes_per_step / slow.usual_bits_per_second)
    yield Cause(
        name="slow link",
        headline="Slow link",
        seconds=cost.seconds,
        sentence=f"the link of n{slow.node} {rates}; communication takes {ms(cost.seconds)} longer than at {usual}",
        evidence=(
            f"It carries {human_bytes(cost.bytes_per_step)} per step in its busier direction: {at_usual} at {usual}.",
            *_dropped(cost),
        ),
        remedy=_remedy(slow),
    )


def _bytes_per_step(slow: SlowLink, record: Record) -> float:
    """Bytes in the link's busier direction, headers included; what a worker sends where they were not counted."""
    if slow.sent_bytes is not None and record.learning.updates:
        return slow.sent_bytes / record.learning.updates
    return record.traffic.sent_bytes_per_worker_and_step / PAYLOAD_SHARE


def _dropped(cost: LinkCost) -> Iterator[str]:
    links = cost.record.network.nodes if cost.record.network is not None else ()
    for link in links:
        if link.node == cost.link.node and link.use is not None and link.use.dropped_packets:
            yield f"It dropped {count(link.use.dropped_packets, 'packet')} during the run."


def _remedy(slow: SlowLink) -> str:
    if slow.changed:
        return f"Find out what slowed the link of n{slow.node} during the run, restore it, and measure again."
    return f"Give n{slow.node} a link like the others', or leave that node out."

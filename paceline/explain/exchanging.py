"""Cause: exposed communication, which does not overlap with backward; what limits it, and what would help."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.breakdown.comparison import Comparison
from paceline.breakdown.setting import MeasuredSetting
from paceline.explain.cause import Cause
from paceline.explain.linking import link_cost
from paceline.measure.latency_bandwidth import Transmission, fit_line, service_seconds
from paceline.measure.links import PAYLOAD_SHARE, slowest
from paceline.measure.runs import StoredRun
from paceline.numbers import count, ms, percent, significant
from paceline.traffic import catalogue
from paceline.units import human_bytes

_WORTH_DIVIDING = 500_000
"""Bytes of gradients; below this neither smaller buckets nor fewer bytes change much."""


@dataclass(frozen=True)
class Links:
    """The time that exchanging a bucket takes: latency + bytes ÷ bandwidth."""

    latency_seconds: float | None
    """None where all buckets have one size, which does not separate latency from bandwidth."""

    seconds_per_byte: float
    buckets: int
    payload_bytes: int

    @property
    def latency_part(self) -> float:
        """Seconds per step that buckets take regardless of their size."""
        return (self.latency_seconds or 0.0) * self.buckets

    @property
    def bandwidth_part(self) -> float:
        """Seconds per step in proportion to the bytes."""
        return self.seconds_per_byte * self.payload_bytes

    @property
    def seconds(self) -> float:
        """Seconds of communication per step, overlapped or exposed."""
        return self.latency_part + self.bandwidth_part

    def bound(self, exposed: float) -> str | None:
        """Whether latency or bandwidth limits the exchange; None where the buckets do not show it."""
        if self.latency_seconds is None or self.seconds < exposed / 2:
            return None
        return "latency" if self.latency_part > self.bandwidth_part else "bandwidth"


def exposed_exchange(case: Comparison) -> Iterator[Cause]:
    """Yield the communication that is still exposed after the last gradient of the last worker is ready."""
    slowed = link_cost(case)  # which is a cause of its own
    seconds = case.excess("exchange") if slowed is None else slowed.exchange
    if not case.noticeable(seconds):
        return
    setting = case.setting
    links = fit_links(setting)
    bound = links.bound(seconds) if links else None
    mostly = f", mostly {bound}" if bound else ""
    yield Cause(
        name="exchange",
        headline="Communication-bound",
        seconds=seconds,
        sentence=f"{ms(seconds)} of communication are exposed after the last gradient is ready{mostly}",
        evidence=tuple(_evidence(setting, links)),
        remedy=_with_servers(setting) if setting.traffic.servers else _with_buckets(setting, links, seconds),
    )


def _evidence(setting: MeasuredSetting, links: Links | None) -> Iterator[str]:
    hidden = setting.hidden_seconds
    if hidden is not None:
        busy = hidden + setting.phases.exchange
        yield f"Of {ms(busy)} of communication, {ms(hidden)} ({percent(hidden / busy)}) overlap with backward."
    if links is not None and links.seconds_per_byte > 0:
        taken = (
            f"{count(links.buckets, 'bucket')} of {human_bytes(links.payload_bytes)} in total take {ms(links.seconds)}"
        )
        if not links.latency_seconds:
            yield f"{taken}: {human_bytes(1 / links.seconds_per_byte)}/s."
        else:
            yield (
                f"{taken}: about {ms(links.latency_seconds)} of latency each, {ms(links.latency_part)} in total, and "
                f"{ms(links.bandwidth_part)} for the bytes at {human_bytes(1 / links.seconds_per_byte)}/s."
            )
    measured = _measured_link(setting)
    if links is not None and measured is not None:
        sent, rate = measured
        yield (
            f"A node's link carries {human_bytes(sent)} each way, headers included: {ms(8 * sent / rate)} at the "
            f"{significant(rate / 1e6)} Mbit/s measured before the run."
        )
    if setting.server_percent is not None:
        yield f"Servers use {setting.server_percent:.0f} % of their cores."


def _with_servers(setting: MeasuredSetting) -> str:
    more = setting.traffic.with_servers(2 * setting.traffic.servers)
    return f"Try `--strategy {more}`: each server sends and receives less. `--strategy allreduce` needs no servers."


def _with_buckets(setting: MeasuredSetting, links: Links | None, exposed: float) -> str:
    strategy = setting.traffic
    usual = strategy.regrouped(None)
    if usual is None or setting.spec.workers == 1:
        return f"Try a larger `--batch {2 * setting.batch}`: fewer exchanges for the same samples."
    if not strategy.overlaps:
        return f"Try `--strategy {usual}`: it sends buckets during backward, which may overlap the communication."
    bound = links.bound(exposed) if links else None
    if links is not None and links.buckets > 1 and bound == "latency":
        larger = strategy.regrouped(_round_size(2 * links.payload_bytes / links.buckets))
        saved = min(exposed, links.latency_part / 2)
        return f"Try `--strategy {larger}`: half as many buckets save at most {ms(saved)} per step."
    if links is not None and links.buckets == 1 and links.payload_bytes >= _WORTH_DIVIDING:
        smaller = strategy.regrouped(_round_size(links.payload_bytes / 4))
        return f"Try `--strategy {smaller}`: it sends smaller buckets earlier, which may overlap with backward."
    coded = catalogue.with_codec(strategy, "bf16")
    if coded is not None and links is not None and bound != "latency" and links.payload_bytes >= _WORTH_DIVIDING:
        saved = min(exposed, links.bandwidth_part / 2)
        return f"Try `--strategy {coded}`: half the bytes save at most {ms(saved)} per step."
    batch, accumulate = 2 * setting.batch, 2 * setting.spec.accumulate
    return f"Try `--batch {batch} --accumulate {accumulate}`: half as many exchanges for the same samples."


def _round_size(payload_bytes: float) -> int:
    """Round to two digits, as people write sizes."""
    return int(float(f"{max(1.0, payload_bytes):.1e}"))


def fit_links(setting: MeasuredSetting) -> Links | None:
    """Fit latency and bandwidth to the buckets' times: a + b · bytes, or b alone where all have one size."""
    if setting.traffic.servers:
        return None  # a server's bucket ends with its update, so its time is not the link's
    taken = [points for run in setting.runs if (points := _services(run))]
    if not taken:
        return None
    alike = [points for points in taken if len(points) == len(taken[0])]  # a resumed run may have other buckets
    points = np.median(np.array(alike), axis=0)
    sizes, seconds = points[:, 0], points[:, 1]
    latency, per_byte = None, float(seconds.sum() / sizes.sum())
    line = fit_line(sizes, seconds)
    if line is not None:
        latency, per_byte = line.latency_seconds, line.seconds_per_byte
    least = min(_least_seconds(setting), float(seconds.sum())) / float(sizes.sum())
    if latency is not None and per_byte < least:  # buckets that share a link end together, whatever their size
        latency, per_byte = max(0.0, float(np.mean(seconds - least * sizes))), least
    return Links(latency, per_byte, len(sizes), int(sizes.sum()))


def _least_seconds(setting: MeasuredSetting) -> float:
    """Seconds that a step's bytes need on the measured link; 0 where none was measured."""
    measured = _measured_link(setting)
    return 0.0 if measured is None else 8 * measured[0] / measured[1]


def _measured_link(setting: MeasuredSetting) -> tuple[float, float] | None:
    """Bytes that a ring sends over a node's link in a step, and bits per second of the slowest; None on one node.

    Neighbours share a node, so only one worker of each node sends over its link: as much as every worker sends.
    """
    record = setting.runs[0].record
    if record.network is None:
        return None
    return record.traffic.sent_bytes_per_worker_and_step / PAYLOAD_SHARE, slowest(record.network.nodes)


def _services(run: StoredRun) -> list[tuple[float, float]]:
    """Each bucket's bytes and the seconds of its exchange, without waiting for its turn or for the last worker.

    Buckets are sent one at a time: each begins when all workers have started it and the previous one is over.
    """
    moments: list[tuple[int, float, float, float]]
    if run.series is None or not len(run.series[0].bucket_step):
        moments = [(b.bucket, b.bytes, b.start_seconds, b.end_seconds) for b in run.record.buckets]
        return [(size, seconds) for _, size, seconds in _one_after_another(moments)]
    exchanges: dict[int, list[tuple[float, float]]] = {}
    watched: dict[int, dict[int, list[tuple[float, float, float]]]] = {}
    for worker in run.series:
        which = (worker.bucket_step, worker.bucket_index, worker.bucket_bytes)
        columns = (*which, worker.bucket_start, worker.bucket_end)
        for step, index, size, start, end in zip(*(c.tolist() for c in columns), strict=True):
            if run.timed.start <= step < run.timed.stop:
                watched.setdefault(int(step), {}).setdefault(int(index), []).append((size, start, end))
    for buckets in watched.values():
        # No worker notices an end before it happens, so the earliest time is right.
        moments = [
            (index, rows[0][0], max(start for _, start, _ in rows), min(end for _, _, end in rows))
            for index, rows in buckets.items()
            if len(rows) == len(run.series)
        ]
        for index, size, seconds in _one_after_another(moments):
            exchanges.setdefault(index, []).append((size, seconds))
    return [(rows[0][0], float(np.median([s for _, s in rows]))) for _, rows in sorted(exchanges.items())]


def _one_after_another(moments: Sequence[tuple[int, float, float, float]]) -> list[tuple[int, float, float]]:
    taken = service_seconds([Transmission(size, start, end) for _, size, start, end in moments])
    return sorted((index, size, seconds) for (index, size, _, _), seconds in zip(moments, taken, strict=True))

"""The cost of moving bytes, fitted to records of workers that exchanged."""

import statistics
from collections.abc import Sequence

from paceline.measure.latency_bandwidth import LatencyBandwidth, Transmission, fit_line, service_seconds
from paceline.measure.links import PAYLOAD_SHARE, slowest
from paceline.project.simulation.network import TCP_SHARE, HostCost, Layout, LinkModel, SimulatedNetwork
from paceline.project.simulation.profile_step import alone_of, anchor_of, own_backward, profile_of
from paceline.project.simulation.simulate import SimulatedSetting, simulate
from paceline.record import Record
from paceline.traffic import catalogue

MESSAGE_SECONDS = 1.1e-4
"""CPU time per message round, whatever its size: that of gloo, measured with 2, 4 and 8 workers on loopback.
Bucket times do not show it: during backward they mostly reflect how the core is shared."""

_LEAST_SHARE = 0.25
_SEEN_SHARE = 0.05
"""The share of a step below which exposed communication says nothing about the link."""

_FEWEST_BUCKETS = 3
"""A line through two buckets shows no error, and other worker counts are projected from it."""


def fit_host(records: Sequence[Record]) -> HostCost | None:
    """The exchange's work on the cores of one node, from the run of the most workers.

    Inside a node bytes move through memory, so the time of the exchange is work of the cores: all exposed exchange,
    and the time that backward took beyond its own. None: nothing was exchanged, or not by the cores of one node.
    """
    anchor = anchor_of(records)
    if not _on_one_node(anchor) or anchor.environment.device_kind != "cpu":
        return None
    alone = alone_of(records, anchor)
    work = anchor.phases.exchange + anchor.phases.backward - own_backward(anchor, alone)
    profile = profile_of(records)
    workers, strategy = anchor.spec.workers, catalogue.resolve(anchor.spec.strategy)

    def seconds(host: HostCost) -> float:
        step = simulate(profile, SimulatedSetting(strategy=strategy, layout=Layout(workers, workers), host=host))
        return step.backward_seconds - profile.backward_seconds + step.exchange_seconds

    per_byte, messages = seconds(HostCost(1.0, 0.0)), seconds(HostCost(0.0, MESSAGE_SECONDS))
    if not per_byte:
        return None
    if messages >= work:
        return HostCost(work / per_byte, 0.0)
    return HostCost((work - messages) / per_byte, MESSAGE_SECONDS)


def fit_network(records: Sequence[Record]) -> SimulatedNetwork | None:
    """Links as measured before the run with the most workers, or else fitted to its buckets.

    A ring of n takes 2(n−1) · latency + 2(n−1)/n · S / bandwidth: a line in the bytes S of a bucket.
    """
    anchor = anchor_of(records)
    if anchor.network is not None:
        return _measured_links(records, anchor)
    line, workers = _line(anchor), anchor.spec.workers
    if line is None or line.seconds_per_byte <= 0 or catalogue.resolve(anchor.spec.strategy).servers:
        return None
    rounds = 2 * (workers - 1)
    link = LinkModel(rounds / workers / line.seconds_per_byte, line.latency_seconds / rounds)
    return SimulatedNetwork(inside=link) if _on_one_node(anchor) else SimulatedNetwork(between=link)


def _measured_links(records: Sequence[Record], anchor: Record) -> SimulatedNetwork:
    """The slowest link, at the share of its rate that explains the run's exposed communication, if there was any."""
    links = anchor.network.nodes if anchor.network is not None else ()
    bytes_per_second = slowest(links) / 8
    latency = statistics.median(link.latency_seconds for link in links)
    profile, strategy = profile_of(records), catalogue.resolve(anchor.spec.strategy)
    layout = Layout.even(anchor.spec.workers, len(links))

    def network(share: float) -> SimulatedNetwork:
        return SimulatedNetwork(between=LinkModel(bytes_per_second * share, latency))

    def exposed(share: float) -> float:
        return simulate(
            profile, SimulatedSetting(strategy=strategy, layout=layout, network=network(share))
        ).exchange_seconds

    taken = anchor.phases.exchange
    if taken < _SEEN_SHARE * anchor.step_seconds:
        return network(TCP_SHARE)
    low, high = _LEAST_SHARE, PAYLOAD_SHARE
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if exposed(middle) > taken else (low, middle)
    return network(low)


def _on_one_node(anchor: Record) -> bool:
    return len({worker.node for worker in anchor.per_worker}) == 1


def _line(anchor: Record) -> LatencyBandwidth | None:
    """Fit the seconds of a bucket to latency and bytes; None where the buckets are too few or too similar."""
    if anchor.spec.workers < 2 or len(anchor.buckets) < _FEWEST_BUCKETS:
        return None
    moments = [Transmission(b.bytes, b.start_seconds, b.end_seconds) for b in anchor.buckets]
    return fit_line((moment.payload_bytes for moment in moments), service_seconds(moments))

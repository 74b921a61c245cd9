"""What moving bytes costs, found in the records of workers that did it."""

from collections.abc import Sequence

import numpy as np

from paceline.project.network import Host, Layout, Link, Network
from paceline.project.profile_step import alone_of, anchor_of, own_backward, profile_of
from paceline.project.simulate import Setting, simulate
from paceline.record import Record
from paceline.traffic import catalogue

MESSAGE_SECONDS = 1.1e-4
"""Processor time of one round of a message, however small: gloo's, measured with 2, 4 and 8 workers on loopback.
Buckets cannot tell it: while backward goes on, what they take is mostly their share of the core."""

_DIFFERENT_SIZES = 4.0
"""The largest bucket over the smallest, for latency to be told from bandwidth."""


def fit_host(records: Sequence[Record]) -> Host | None:
    """The exchange's work on the cores of one node, from the run of the most workers.

    Inside a node bytes move through memory: what the exchange took is work. Of the step's time that is all which is
    exposed, and what backward took beyond its own. None: nothing was exchanged, or not by the cores of one node.
    """
    anchor = anchor_of(records)
    if not _on_one_node(anchor) or anchor.environment["device_kind"] != "cpu":
        return None
    alone = alone_of(records, anchor)
    work = anchor.phases["exchange"] + anchor.phases["backward"] - own_backward(anchor, alone)
    profile = profile_of(records)
    workers, traffic = anchor.spec["workers"], catalogue.resolve(anchor.spec["strategy"])

    def seconds(host: Host) -> float:
        step = simulate(profile, Setting(traffic=traffic, layout=Layout(workers, workers), host=host))
        return step.backward_seconds - profile.backward_seconds + step.exchange_seconds

    per_byte, messages = seconds(Host(1.0, 0.0)), seconds(Host(0.0, MESSAGE_SECONDS))
    if not per_byte:
        return None
    if messages >= work:
        return Host(work / per_byte, 0.0)
    return Host((work - messages) / per_byte, MESSAGE_SECONDS)


def fit_network(records: Sequence[Record]) -> Network | None:
    """Links from the buckets of the run of the most workers, where no host's cores explain them.

    A ring of n takes 2(n−1) · latency + 2(n−1)/n · S / bandwidth: a line in the bytes S of a bucket.
    """
    anchor = anchor_of(records)
    line, workers = _line(anchor), anchor.spec["workers"]
    if line is None or line[1] <= 0 or catalogue.resolve(anchor.spec["strategy"]).servers:
        return None
    rounds = 2 * (workers - 1)
    link = Link(rounds / workers / line[1], line[0] / rounds)
    return Network(inside=link) if _on_one_node(anchor) else Network(between=link)


def _on_one_node(anchor: Record) -> bool:
    return len({worker["node"] for worker in anchor.per_worker}) == 1


def _line(anchor: Record) -> tuple[float, float] | None:
    """Seconds of a bucket as a + b · bytes; None where sizes are too alike to tell a from b.

    A bucket's time is counted from when the one before it was over: two may be under way, but share what they use.
    """
    if anchor.spec["workers"] < 2 or not anchor.buckets:
        return None
    before, sizes, seconds = 0.0, [], []
    for bucket in sorted(anchor.buckets, key=lambda b: float(b["end_seconds"])):
        sizes.append(float(bucket["bytes"]))
        seconds.append(max(0.0, bucket["end_seconds"] - max(bucket["start_seconds"], before)))
        before = max(before, bucket["end_seconds"])
    if len(sizes) < 3 or max(sizes) < _DIFFERENT_SIZES * min(sizes):
        return None
    slope, intercept = np.polyfit(sizes, seconds, 1)
    return max(0.0, float(intercept)), float(slope)

"""Networks as people write them, and what a transfer costs on them."""

import math

import pytest

from paceline.errors import SpecError
from paceline.network import parse_network
from paceline.project.simulation.network import (
    FLOW_BYTES_PER_SECOND,
    TCP_PASSES,
    TCP_SHARE,
    HostCost,
    Layout,
    LinkModel,
    Load,
    SimulatedNetwork,
    collective_load,
)
from paceline.traffic.base import Transfer
from paceline.units import parse_seconds


def test_a_network_keeps_what_tcp_leaves_of_it_and_no_more_than_one_flow_reaches() -> None:
    network = SimulatedNetwork.of(parse_network("10Gbps,latency=50us,inside=100Gbps,inside_latency=5us"))
    assert network.between == LinkModel(TCP_SHARE * 10e9 / 8, parse_seconds("50us"))
    assert network.inside == LinkModel(FLOW_BYTES_PER_SECOND, parse_seconds("5us"))
    assert network.in_flight == 2


def test_an_efficiency_that_is_given_is_taken_as_it_is() -> None:
    network = SimulatedNetwork.of(parse_network("100Gbps,efficiency=80%,in_flight=1"))
    assert network == SimulatedNetwork(between=LinkModel(0.8 * 100e9 / 8, 0.0), in_flight=1)
    assert SimulatedNetwork.of(parse_network("100Gbps,efficiency=0.8,in_flight=1")) == network


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("latency=5us", "bandwidth"),
        ("0Gbps", "bandwidth of 0Gbps is not valid: it must be above 0"),
        ("1Gbps,latncy=5us", "latency"),
        ("1Gbps,latency=5 parsecs", "time"),
        ("1Gbps,latency", "latency=…"),
        ("1Gbps,latency=1us,latency=2us", "once"),
        ("1Gbps,efficiency=1.5", "at most 1"),
        ("1Gbps,efficiency=high", "at most 1"),
        ("1Gbps,in_flight=0", "at least 1"),
        ("1Gbps,in_flight=two", "whole number"),
        ("1Gbps,n1=100Mbps", "gives n1= a link of its own: a projection assumes equal nodes"),
        ("n0=1Gbps", "a projection assumes equal nodes"),
    ],
)
def test_a_network_that_makes_no_sense_is_refused_by_its_rule(text: str, word: str) -> None:
    with pytest.raises(SpecError, match=word):
        SimulatedNetwork.of(parse_network(text))


def test_nodes_are_filled_one_after_the_other() -> None:
    assert (Layout(10, 4).nodes, Layout(10, 4).fullest) == (3, 4)
    assert (Layout(2, 4).nodes, Layout(2, 4).fullest) == (1, 2)
    with pytest.raises(SpecError):
        Layout(0, 4)


def test_workers_are_spread_evenly_over_nodes_that_are_given() -> None:
    assert (Layout.even(9, 4).nodes, Layout.even(9, 4).fullest) == (4, 3)
    with pytest.raises(SpecError, match="1 to 4 nodes"):
        Layout.even(4, 5)


def test_a_ring_takes_its_rounds_of_latency_and_twice_all_but_one_slice() -> None:
    network = SimulatedNetwork(between=LinkModel(1e6, 1e-3))
    load = collective_load(Transfer("ring", 8000), Layout(4, 1), network, HostCost())
    assert load.latency_seconds == pytest.approx(6 * 1e-3)  # 2(n−1) rounds
    assert load.wire_seconds == pytest.approx(6 * 2000 / 1e6)  # of a quarter each
    assert load.host_seconds == 0


def test_in_a_ring_over_nodes_one_hop_of_each_node_leaves_it() -> None:
    network = SimulatedNetwork(between=LinkModel(1e6, 1e-3), inside=LinkModel(4e6, 1e-4))
    load = collective_load(Transfer("ring", 8000), Layout(8, 4), network, HostCost())
    # Of 8 hops 2 leave a node; slices of 1000 bytes go at the pace of the slower link.
    assert load.latency_seconds == pytest.approx(14 * (0.25 * 1e-3 + 0.75 * 1e-4))
    assert load.wire_seconds == pytest.approx(14 * 1000 / 1e6)


def test_a_core_sends_receives_and_adds_half_of_it() -> None:
    host = HostCost(pass_seconds_per_byte=1e-9, message_seconds=1e-5)
    load = collective_load(Transfer("ring", 1_000_000), Layout(2, 2), SimulatedNetwork(), host)
    assert load == Load(0.0, 0.0, load.host_seconds)
    assert load.host_seconds == pytest.approx(2 * 1e-5 + (2 * TCP_PASSES + 0.5) * 1e-3)


def test_a_broadcast_goes_round_once_and_adds_nothing() -> None:
    host, network = HostCost(1e-9, 0.0), SimulatedNetwork(inside=LinkModel(1e6, 0.0))
    load = collective_load(Transfer("broadcast", 2000), Layout(2, 2), network, host)
    assert (load.wire_seconds, load.host_seconds) == pytest.approx((1e-3, 2 * TCP_PASSES * 1000 * 1e-9))


@pytest.mark.parametrize(("payload", "workers"), [(0, 8), (1000, 1)])
def test_nothing_to_say_or_nobody_to_talk_to_costs_nothing(payload: int, workers: int) -> None:
    network, host = SimulatedNetwork(between=LinkModel(1.0, 1.0), inside=LinkModel(1.0, 1.0)), HostCost(1.0, 1.0)
    assert collective_load(Transfer("ring", payload), Layout(workers, 1), network, host) == Load()


def test_a_link_without_limits_adds_no_time() -> None:
    assert LinkModel().bytes_per_second == math.inf
    assert collective_load(Transfer("ring", 10**9), Layout(64, 8), SimulatedNetwork(), HostCost()) == Load()

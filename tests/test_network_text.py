"""Networks as people write them."""

import pytest

from paceline.engines.plan import site_settings
from paceline.errors import SpecError
from paceline.network import Network, Site, parse_network


@pytest.mark.parametrize(
    ("text", "network", "written"),
    [
        ("1Gbps", Network(1e9), "1Gbps"),
        ("1000Mbps", Network(1e9), "1Gbps"),
        ("1Gbps, n1=100Mbps", Network(1e9, {1: 1e8}), "1Gbps,n1=100Mbps"),
        ("n1=1.5Gbps,n0=10mbps", Network(None, {0: 1e7, 1: 1.5e9}), "n0=10Mbps,n1=1.5Gbps"),
        ("100Mbps,latency=1.5ms", Network(1e8, latency=1.5e-3), "100Mbps,latency=1500us"),
        (
            "1Gbps,inside=10Gbps,inside_latency=1500us,efficiency=80%,in_flight=3",
            Network(1e9, inside=1e10, inside_latency=1.5e-3, efficiency=0.8, in_flight=3),
            "1Gbps,inside=10Gbps,inside_latency=1500us,efficiency=0.8,in_flight=3",
        ),
    ],
)
def test_a_network_is_read_and_written_back_in_one_form(text: str, network: Network, written: str) -> None:
    assert parse_network(text) == network
    assert str(network) == written
    assert parse_network(written) == network


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0Mbps", "must be above 0"),
        ("1000", "use bps, kbps"),
        ("1GB", "is not a bandwidth"),
        ("fast", "write it like 1Gbps"),
        ("", "write it like 1Gbps"),
        ("1Gbps,2Gbps", "two bandwidths for all nodes"),
        ("n0=1Gbps,n0=2Gbps", "gives n0 two bandwidths"),
        ("node1=1Gbps", "is not part of a network"),
        ("latency=1ms", "has no bandwidth"),
        ("1Gbps,latency=1ms,latency=2ms", "write latency=… once"),
        ("1Gbps,latency=", "write latency=… once"),
        ("1Gbps,inside=0bps", "must be above 0"),
        ("1Gbps,latency=50", "A latency of 50 has no unit: write 50us, 50ms or 50s"),
        ("1Gbps,inside_latency=0.5", "A latency of 0.5 has no unit"),
        ("1GBps", "bits or in bytes"),
    ],
)
def test_what_is_no_network_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        parse_network(text)


def test_every_node_needs_a_bandwidth_and_only_nodes_have_one() -> None:
    parse_network("1Gbps,n1=100Mbps").check_nodes(2)
    with pytest.raises(SpecError, match="names n2: with 2 nodes they are n0 to n1"):
        parse_network("1Gbps,n2=100Mbps").check_nodes(2)
    with pytest.raises(SpecError, match="leaves n1, n2 without a bandwidth"):
        parse_network("n0=1Gbps").check_nodes(3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("100kbps", "at least 1Mbps"),
        ("10Tbps", "it must be at most 1000Gbps"),
        ("1Gbps,n1=10Tbps", "it must be at most 1000Gbps"),
        ("1Gbps,latency=0s", "above 0 and at most 1s"),
        ("1Gbps,inside=10Gbps", "inside= is for projections only: a testbed's links are real"),
        ("1Gbps,efficiency=0.9,in_flight=1", "efficiency=, in_flight= is for projections only"),
    ],
)
def test_what_no_testbed_can_make_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        parse_network(text).check_nodes(2)


def test_one_machine_has_no_settings_for_runs_and_a_testbed_has_its_own() -> None:
    assert site_settings(Site()) == {}
    assert site_settings(Site(3, "1Gbps")) == {"nodes": 3, "network": "1Gbps"}


def test_slow_motion_slows_every_link_and_lengthens_every_delay() -> None:
    slowed = parse_network("1Gbps,n1=100Mbps,latency=50us").slowed(4)
    assert [slowed.bits_per_second(node) for node in (0, 1)] == [250e6, 25e6]
    assert slowed.latency == pytest.approx(200e-6)
    with pytest.raises(SpecError, match=r"is a link of 0.5Mbps|is a link of 500kbps"):
        parse_network("1Mbps").slowed(2)

"""Links of a testbed: the rate that was asked for, in both directions, and collectives that reach it.

How nearly is for a machine that does nothing else (`make prove`). Beside other tests a link may have to wait for a
core; but never is it faster than its rate, and never so slow that it could be another's.
"""

import json
import socket
import subprocess
import time
from functools import partial

import pytest
from processes import run_workers
from testbed.hosts_here import real_testbed

from paceline import netns
from paceline.network import parse_network
from paceline.strategies.group import Group
from paceline.testbed import links


def measured(network: str, nodes: int = 2) -> list[float]:
    """Each direction of each link, as a share of what was asked for."""
    with real_testbed(nodes, network) as made:
        found = made.prepare(network, nodes)
    return [
        rate / link.asked_bits_per_second
        for link in found
        for rate in (link.sent_bits_per_second, link.received_bits_per_second)
    ]


def is_about(found: float, asked: float) -> bool:
    return asked / 2 < found <= 1.03 * asked


@pytest.mark.prove
@pytest.mark.parametrize("network", ["100Mbps", "1Gbps"])
def test_goodput_and_headers_are_within_three_percent_of_what_was_asked(network: str) -> None:
    assert measured(network) == pytest.approx([1.0] * 4, abs=0.03)


@pytest.mark.parametrize("network", ["100Mbps", "1Gbps"])
def test_a_link_has_the_rate_that_was_asked_for_in_both_directions(network: str) -> None:
    found = measured(network)
    assert len(found) == 4
    assert all(is_about(share, 1.0) for share in found), found


def test_every_node_can_have_its_own_rate() -> None:
    with real_testbed(3, "50Mbps,n1=10Mbps") as made:
        found = made.prepare("50Mbps,n1=10Mbps", 3)
        assert [link.asked_bits_per_second for link in found] == [50e6, 10e6, 50e6]
        assert all(is_about(link.sent_bits_per_second, link.asked_bits_per_second) for link in found), found
        assert is_about(links.bits_per_second(made.hosts[0], made.hosts[1]), 10e6)  # the slower link decides


def test_packets_fit_into_what_may_leave_at_once_so_that_no_core_has_to_cut_them() -> None:
    with real_testbed(2, "50Mbps") as made:
        sizes = {}
        for network in ("50Mbps", "10Gbps"):
            made.prepare(network, 2)
            command = ["ip", "-d", "-j", "link", "show", "dev", made.hosts[0].interface]
            shown = netns.inside(made.hosts[0].namespace, partial(subprocess.check_output, command))
            sizes[network] = json.loads(shown)[0]["gso_max_size"]
    burst = 50e6 / 8 * 2e-3
    assert 0.5 * burst < sizes["50Mbps"] < burst
    assert sizes["10Gbps"] == 65536


def test_flows_share_a_link_as_linux_does_by_default_whatever_this_machine_is_set_to() -> None:
    with real_testbed(2, "50Mbps") as made:
        near, far = links._connected(*made.hosts)
        with near, far:
            named = near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert named.rstrip(b"\0") == b"cubic"


def test_a_link_takes_the_rate_of_the_next_run() -> None:
    with real_testbed(2, "50Mbps") as made:
        for network, asked in (("50Mbps", 50e6), ("20Mbps", 20e6)):
            assert is_about(made.prepare(network, 2)[0].sent_bits_per_second, asked)


def exchange(group: Group, payload_bytes: int, times: int) -> float:
    """The quickest of some all-reduces, in seconds."""
    import torch

    tensor = torch.ones(payload_bytes // 4)
    seconds = []
    for _ in range(times):
        group.barrier()
        begun = time.perf_counter()
        group.all_reduce(tensor).wait()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def share_of_link(network: str, payload_bytes: int, times: int) -> float:
    """Payload that an all-reduce between two nodes moves, 2(n−1)/n·S = S each way, over what the link could carry."""
    with real_testbed(2, network) as made:
        made.prepare(network, 2)
        seconds = float(max(run_workers(2, exchange, payload_bytes, times, hosts=made.hosts)))
    rate = parse_network(network).bits_per_second(0)
    return payload_bytes * 8 / seconds / rate


def test_an_all_reduce_between_two_nodes_is_as_quick_as_the_link_and_no_quicker() -> None:
    assert is_about(share_of_link("100Mbps", 5_000_000, 5), 0.956)  # = 1448/1514, all that headers leave


@pytest.mark.prove
def test_an_all_reduce_of_100_mb_reaches_nine_tenths_of_1_gbit() -> None:
    assert 0.9 <= share_of_link("1Gbps", 100_000_000, 5) < 0.97

"""Hosts of a testbed: apart from one another and from the machine, and gone whatever happens."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from processes import without_coverage
from testbed.hosts_here import namespace_of, namespaces, need_root_and_tools, real_testbed

from paceline import netns
from paceline.engines.plan import plan
from paceline.errors import DeviceError, SpecError
from paceline.netns import Host
from paceline.spec import RunSpec
from paceline.testbed import hosts, links, tools

TESTS = Path(__file__).parent.parent
NAMED = Path("/run/netns")


def listening(host: Host, address: str) -> socket.socket:
    return netns.inside(host.namespace, lambda: socket.create_server((address, 0)))


def reach(host: Host, address: tuple[str, int]) -> bool:
    """Whether a connection can be made from a host."""
    return netns.inside(host.namespace, lambda: connects(address))


def connects(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=0.5):
        return True
    return False


def named() -> list[str]:
    return sorted(path.name for path in NAMED.iterdir()) if NAMED.is_dir() else []


def test_hosts_reach_one_another_by_their_links_and_by_nothing_else() -> None:
    with real_testbed(3) as made:
        first, second, third = made.hosts
        with listening(second, second.address) as open_one, listening(second, "127.0.0.1") as own:
            assert reach(first, open_one.getsockname())
            assert reach(third, open_one.getsockname())
            assert reach(second, own.getsockname())  # a loopback for workers of one node
            assert not reach(first, own.getsockname())
        with socket.create_server(("127.0.0.1", 0)) as of_the_machine:
            assert not reach(first, of_the_machine.getsockname())


def test_the_machine_sees_neither_the_links_nor_what_listens_on_them() -> None:
    links_before, names_before = socket.if_nameindex(), named()
    with real_testbed() as made, listening(made.hosts[0], made.hosts[0].address) as listener:
        assert socket.if_nameindex() == links_before
        assert named() == names_before
        assert not connects(listener.getsockname())


def test_leaving_a_testbed_removes_it_also_when_it_could_not_be_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(namespaces())
    with real_testbed() as made:
        assert len(set(namespaces()) - before) >= 3  # two hosts and the switch
        gone = made.hosts[0].namespace
    assert not os.path.exists(gone)

    def refuse(*_: object) -> None:
        raise DeviceError("no")

    monkeypatch.setattr(tools, "run_batch", refuse)
    descriptors = os.listdir("/proc/self/fd")
    with pytest.raises(DeviceError), real_testbed():
        pass
    assert os.listdir("/proc/self/fd") == descriptors


def test_two_testbeds_at_once_have_the_same_addresses_and_their_own_rates() -> None:
    with real_testbed(network="40Mbps") as slow, real_testbed(network="80Mbps") as fast:
        assert [h.address for h in slow.hosts] == [h.address for h in fast.hosts]
        slow.prepare("40Mbps", 2)
        fast.prepare("80Mbps", 2)
        for made, asked in ((slow, 40e6), (fast, 80e6)):  # a core that is taken away spoils a measurement
            rates = [links.bits_per_second(*made.hosts) for _ in range(4)]
            assert min(rates, key=lambda rate: abs(rate - asked)) == pytest.approx(asked, rel=0.05), rates


def test_a_testbed_that_is_killed_leaves_no_process_no_namespace_and_no_link(tmp_path: Path) -> None:
    need_root_and_tools()
    links_before, names_before = socket.if_nameindex(), named()
    temporary = tempfile.TemporaryDirectory(prefix="pl-killed-")  # what Python's own helpers leave is no concern here
    command = ["testbed", "--nodes", "2", "--bandwidth", "100Mbps", "--", "train", "faulty:faulty"]
    more = ["--workers", "2", "--workers-per-device", "2", "--strategy", "ps", "--seconds", "300", "--out", "run"]
    killed = subprocess.Popen(
        [sys.executable, "-m", "paceline", *command, *more],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS), "TMPDIR": temporary.name},
        stderr=subprocess.PIPE,
        text=True,
    )
    with temporary, killed:
        assert killed.stderr is not None
        while "step " not in killed.stderr.readline():
            assert killed.poll() is None
        family = psutil.Process(killed.pid).children(recursive=True)
        apart = {namespace_of(p.pid) for p in family} - {namespace_of(os.getpid())}
        assert len(apart) == 2  # every worker is on a host of its own
        killed.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(family, timeout=20)
        assert not alive
    deadline = time.monotonic() + 10
    while left := apart & set(namespaces()):
        assert time.monotonic() < deadline, f"namespaces are left: {left}"
        time.sleep(0.05)
    assert (socket.if_nameindex(), named()) == (links_before, names_before)


@pytest.mark.parametrize(
    ("nodes", "network", "reason"),
    [
        (300, "1Gbps", "addresses for 253"),
        (1, "1Gbps", "at least 2"),
        (2, "0Gbps", "above 0"),
        (2, "10Tbps", "at most 1000Gbps"),
        (2, "n0=1Gbps", "leaves n1 without"),
        (2, "1Gbps,n2=1Gbps", "names n2"),
    ],
)
def test_what_no_testbed_can_be_is_refused_with_the_reason(nodes: int, network: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        hosts.site(nodes, network)


def test_a_latency_is_added_or_refused_where_the_kernel_has_no_netem() -> None:
    spec = RunSpec(workload="vae", workers=2, workers_per_device=2, nodes=2, network="100Mbps,latency=20ms", steps=1)
    with real_testbed() as made:
        if made.site.delays:
            assert plan(spec, made.site).spec.network == "100Mbps,latency=20000us"
            made.prepare("100Mbps,latency=20ms", 2)
            assert links.latency_seconds(*made.hosts) == pytest.approx(0.02, rel=0.2)
        else:
            with pytest.raises(DeviceError, match="this kernel has no netem"):
                plan(spec, made.site)


def test_without_root_one_line_says_what_to_do() -> None:
    # Root loads the program, because others may not be able to read it; whom it asks then is nobody.
    program = (
        "import contextlib, os, sys\n"
        "import paceline.cli.train\n"  # while its files can be read: they may belong to root
        "from paceline.cli.main import main\n"
        "for nodes in ('300', '2'):\n"
        "    sys.argv[1:] = f'testbed --nodes {nodes} --bandwidth 1Gbps -- train vae --steps 1'.split()\n"
        "    with contextlib.suppress(SystemExit) if nodes == '300' else contextlib.nullcontext():\n"
        "        main()\n"
        "    os.setuid(65534) if os.geteuid() == 0 else None\n"
    )
    if tools.missing() is not None and "root" not in str(tools.missing()):
        pytest.skip(f"another reason comes first: {tools.missing()}")
    command = [sys.executable, "-c", program]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, env=without_coverage())
    assert refused.returncode == 2
    said = "it needs root to make network namespaces: put sudo before the command."
    assert refused.stderr.splitlines()[1:] == [f"paceline: A testbed cannot run here: {said}"]


def test_without_iproute2_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_find", lambda tool: None)
    with pytest.raises(DeviceError, match="ip and tc are not installed: apt install iproute2"):
        tools.require_tools()

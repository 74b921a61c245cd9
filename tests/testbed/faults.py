"""Faults of links, for tests and benchmarks: cut or slow the link of one node of a testbed while a run uses it.

    with Testbed(site(2, "100Mbps")) as made:
        engine = LocalEngine(made)
        engine.run(plan(spec, engine.site), out, AtStep(5, lambda: slow_link_of(made, 1, 10e6)))

A run that is cut raises `Hang` after its `timeout`, and its message names the link. A slowed one leaves a record, which
`explain` blames on the link. The next run of the testbed restores all links.
"""

from collections.abc import Callable

from paceline.engines.base import NoDisplay
from paceline.testbed import tools
from paceline.testbed.hosts import Testbed


class AtStep(NoDisplay):
    """A display that does something once, when rank 0 reports this step or a later one."""

    def __init__(self, step: int, action: Callable[[], None]) -> None:
        self._step = step
        self._action = action
        self.done = False

    def progress(self, *, step: int, samples: int, loss: float | None) -> None:
        if step >= self._step and not self.done:
            self.done = True
            self._action()


def cut_link_of(testbed: Testbed, node: int) -> None:
    """Pull the cable of a node."""
    host = testbed.hosts[node]
    tools.run_batch("ip", host.namespace, [f"link set dev {host.interface} down"])


def slow_link_of(testbed: Testbed, node: int, bits_per_second: float) -> None:
    """Lower the rate of a node's link in both directions."""
    host, switch = testbed.hosts[node], testbed.switch
    burst = max(bits_per_second / 8 * 2e-3, 3100)
    rate = f"root handle 1: tbf rate {bits_per_second:.0f}bit burst {burst:.0f} limit 262144"
    tools.run_batch("tc", host.namespace, [f"qdisc change dev {host.interface} {rate}"])
    tools.run_batch("tc", switch.namespace, [f"qdisc change dev {host.name} {rate}"])

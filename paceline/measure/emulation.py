"""Check whether a run with emulated devices measured them, or the host that emulates them."""

from collections.abc import Iterable, Sequence

from paceline.measure.links import off_rate
from paceline.record import Record
from paceline.record_parts import MeasuredNetwork
from paceline.settings import Role, SettingValue
from paceline.spec import RunSpec, with_role

BUSY_PERCENT = 80.0
"""Busier cores cannot keep the emulated devices' schedule."""

AGREEMENT = 0.03
"""Relative difference up to which two rates, or a step and its planned time, count as equal."""


def host_limits(
    *, busy_percent: float | None, stolen_percent: float | None, overrun: float, network: MeasuredNetwork | None
) -> list[str]:
    """Reasons why the host, and not the emulated devices, limited the figures."""
    limits = []
    if busy_percent is None or busy_percent >= BUSY_PERCENT:
        how = (
            "the utilisation of the cores is unknown"
            if busy_percent is None
            else f"cores were {busy_percent:.0f} % busy"
        )
        limits.append(how)
    if stolen_percent is not None and stolen_percent > 100 * AGREEMENT:
        limits.append(f"other machines on the same host had {stolen_percent:.0f} % of the cores' time (steal)")
    if overrun > AGREEMENT:
        limits.append(f"forward, backward and update made a step {overrun:.0%} longer than on the device")
    for link, rate in off_rate(network):
        share = rate / link.asked_bits_per_second
        limits.append(f"the link of n{link.node} carried {share:.0%} of the requested rate")
    return limits


def host_was_limit(records: Sequence[Record], others: Iterable[Record] = ()) -> str | None:
    """A sentence that says how the host limited these repeats; None where it did not.

    A figure also counts if the same run at twice or half the slow motion, among `others`, has the same rate.
    """
    if not records:
        return None
    limits = [limit for r in records if r.emulation is not None for limit in r.emulation.host_limits]
    if not limits or any(_confirms(other, records[0]) for other in others):
        return None
    slower = 2 * records[0].emulation.slow_motion if records[0].emulation else 2
    return f"The host was the limit: {limits[0]}. Use --slow-motion {slower:g}, and compare."


def _confirms(other: Record, record: Record) -> bool:
    """Whether the same run at twice or half the slow motion has the same rate."""
    if other.emulation is None or record.emulation is None:
        return False
    ratio = other.emulation.slow_motion / record.emulation.slow_motion
    rates = other.throughput.value / record.throughput.value
    same = _but_for_motion(other.spec) == _but_for_motion(record.spec)
    return same and ratio in (2.0, 0.5) and abs(rates - 1) <= AGREEMENT


def _but_for_motion(spec: RunSpec) -> dict[str, SettingValue]:
    """The settings that identify a run, without slow motion and length."""
    lengths = with_role(Role.LENGTH)
    identity = spec.by_role(Role.IDENTITY)
    return {name: value for name, value in identity.items() if name != "slow_motion" and name not in lengths}

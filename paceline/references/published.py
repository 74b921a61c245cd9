"""Published rates of one device alone, which set the pace of emulated devices."""

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.errors import SpecError
from paceline.numbers import number
from paceline.references import catalogue

_ANY = "all"
"""The key of a table's device for rows that name no machine."""


@dataclass(frozen=True)
class Published:
    """A published rate of one worker on one device."""

    device: str
    machine: str | None
    workload: str
    rate: float
    unit: str
    batch: int | None
    source: str


def rate_of(device: str, workload: str) -> Published:
    """The rate of a device (or of a machine, such as `lm6`) for a workload of this name, ignoring its options."""
    entries = [entry for entry in _published() if device.lower() in (entry.device, (entry.machine or "").lower())]
    fitting = [entry for entry in entries if entry.workload == workload]
    if fitting:
        return fitting[0]
    remedy = "give a rate of your own, emulated:rate=500, or a file that `paceline profile` made"
    if entries:
        known = ", ".join(dict.fromkeys(entry.workload for entry in entries))
        raise SpecError(f"No rate of {workload} on {device} is published, only of {known}. Use one, or {remedy}.")
    raise SpecError(f"emulated:{device} is not known: use one of {', '.join(known_devices())}, or {remedy}.")


def known_devices() -> list[str]:
    """Names of devices and machines that have a rate for some workload."""
    return list(dict.fromkeys(name for entry in _published() for name in (entry.device, entry.machine) if name))


def _published() -> Iterator[Published]:
    """The rates of all tables that name their devices."""
    for name in catalogue.names():
        reference = catalogue.load(name)
        for series in reference.series:
            for row in series.alone:
                device, rate = reference.devices.get(row.machine or _ANY), series.rate(row)
                if device is None or series.workload is None or rate is None:
                    continue
                workload = series.workload.partition(":")[0]
                where = f"{device} ({row.machine})" if row.machine else device
                source = f"{number(rate)} {series.unit} published for {workload} on {where}: {reference.source}"
                yield Published(device, row.machine, workload, rate, series.unit or "", row.batch, source)

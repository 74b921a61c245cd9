"""Records whose rate is known, for tests of what is made of a rate: a busy machine may leave a short run's unknown."""

import dataclasses

from paceline.record import Record
from paceline.record_parts import Throughput


def with_known_rate(record: Record) -> Record:
    """The record, its rate known to ± 5 %."""
    rate = record.throughput
    known = Throughput(value=rate.value, low=rate.value * 0.95, high=rate.value * 1.05, unit=rate.unit)
    return dataclasses.replace(record, throughput=known)

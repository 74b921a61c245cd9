"""Latency and bandwidth from messages of different sizes; explain and the projection share the fit."""

import pytest

from paceline.explain import exchanging
from paceline.measure import latency_bandwidth
from paceline.measure.latency_bandwidth import Transmission, fit_line, service_seconds
from paceline.project.simulation import calibrate

SIZES = [1e6, 2e6, 4e6]


def test_a_line_gives_latency_and_bandwidth() -> None:
    found = fit_line(SIZES, [0.002 + size / 1e8 for size in SIZES])
    assert found is not None
    assert found.latency_seconds == pytest.approx(0.002)
    assert found.seconds_per_byte == pytest.approx(1e-8)


def test_without_latency_the_line_goes_through_the_origin() -> None:
    found = fit_line(SIZES, [0.005, 0.02, 0.05])  # the free line would cross zero at 0.67 MB
    assert found is not None
    assert found.latency_seconds == 0.0
    assert found.seconds_per_byte == pytest.approx((0.005e6 + 0.04e6 + 0.2e6) / 21e12)


def test_a_time_that_falls_with_the_size_is_all_latency() -> None:
    found = fit_line(SIZES, [0.03, 0.02, 0.01])
    assert found is not None
    assert found.seconds_per_byte == 0
    assert found.latency_seconds > 0


@pytest.mark.parametrize("sizes", [[], [1e6], [1e6, 1.9e6]])
def test_sizes_that_are_too_much_alike_give_no_line(sizes: list[float]) -> None:
    assert fit_line(sizes, [0.01] * len(sizes)) is None


def test_a_message_is_served_from_its_start_or_from_the_end_of_the_one_before() -> None:
    first, second, late = Transmission(1, 0.0, 2.0), Transmission(1, 1.0, 3.0), Transmission(1, 5.0, 6.0)
    assert service_seconds([late, second, first]) == [1.0, 1.0, 2.0]


def test_explain_and_projection_use_the_same_fit() -> None:
    for name in ("fit_line", "service_seconds"):
        shared = getattr(latency_bandwidth, name)
        assert getattr(exchanging, name) is shared
        assert getattr(calibrate, name) is shared

"""Numbers are written as people read them, and in one way everywhere."""

import math

import pytest

from paceline.measure.links import in_words
from paceline.measure.stats import Figure
from paceline.numbers import count, number, rate, significant
from paceline.record_parts import MeasuredLink
from paceline.studies.columns import COLUMNS
from paceline.studies.table import figure
from paceline.units import human_bytes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((19520.4, "19,520"), (-19520.4, "-19,520"), (1234567.0, "1,234,567"), (1e9, "1,000,000,000")),
        *((999.96, "1,000"), (999.94, "999.9"), (1000.0, "1,000"), (23.944, "23.94"), (0.046, "0.046"), (0.0, "0")),
    ],
)
def test_four_digits_and_all_of_those_before_the_point(value: float, text: str) -> None:
    assert significant(value) == text
    assert rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (123456.7, "123,457"),
        (12345.67, "12,346"),
        (1234.567, "1,234.6"),
        (4.5, "4.5"),
        (2, "2"),
        (2**20, "1,048,576"),
    ],
)
def test_whole_numbers_are_whole_and_others_have_five_digits(value: float, text: str) -> None:
    assert number(value) == text
    assert COLUMNS["loss"].written(value) == text


def test_no_number_that_is_not_tiny_is_written_with_an_exponent() -> None:
    for exponent in range(-4, 16):
        for digits in (4, 5):
            for factor in (1.0, 1.2345678, 9.99996):
                value = factor * 10.0**exponent
                text = significant(value, digits)
                assert "e" not in text
                assert math.isclose(float(text.replace(",", "")), value, rel_tol=0.5 * 10.0 ** (1 - digits))


def test_one_is_singular_and_thousands_are_set_apart() -> None:
    assert [count(n, "worker") for n in (0, 1, 2, 1024)] == ["0 workers", "1 worker", "2 workers", "1,024 workers"]


def test_rates_above_ten_thousand_have_no_exponent_in_summaries_links_and_bytes() -> None:
    assert figure(Figure(19520.4, 19000.2, 20011.0), rate) == "19,520 (19,000–20,011)"
    link = MeasuredLink(
        node=0,
        asked_bits_per_second=25e9,
        sent_bits_per_second=25.04e9,
        received_bits_per_second=25.04e9,
        latency_seconds=1e-4,
    )
    assert in_words([link]).startswith("25,040 Mbit/s")
    assert human_bytes(25.04e12) == "25,040 GB"

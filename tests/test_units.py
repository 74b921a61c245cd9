"""Quantities as people write them."""

import pytest

from paceline.errors import SpecError
from paceline.units import (
    format_bytes,
    human_bytes,
    human_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("0", 0),
        ("25MB", 25_000_000),
        ("25mb", 25_000_000),
        (" 1.5 GB ", 1_500_000_000),
        (".5KB", 500),
        ("1KiB", 1024),
        ("1MiB", 2**20),
        ("2GiB", 2**31),
        ("1e3B", 1000),
        ("1e-3GB", 1_000_000),
    ],
)
def test_bytes_are_read_with_powers_of_ten_and_of_two(text: str, count: int) -> None:
    assert parse_bytes(text) == count
    assert isinstance(parse_bytes(text), int)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("250ms", 0.25), ("50us", 5e-5), ("50µs", 5e-5)],
)
def test_times_are_read_in_their_units(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "bits_per_second"),
    [
        ("1Gbps", 1e9),
        ("100 Mbps", 1e8),
        ("2.5gbps", 2.5e9),
        ("8kbps", 8e3),
        ("125MB/s", 1e9),
        ("1Gbit/s", 1e9),
        ("1e3B/s", 8e3),
        ("100Mb/s", 1e8),
        ("10GB/s", 8e10),
        ("1MiB/s", 8 * 2**20),
        ("1TB/s", 8e12),
    ],
)
def test_a_bandwidth_is_read_in_bits_or_bytes_per_second(text: str, bits_per_second: float) -> None:
    assert parse_bandwidth(text) == bits_per_second


@pytest.mark.parametrize("text", ["1G", "fast", "-1Gbps", "1e999Gbps", "", "1Gbit", "1B/s/s"])
def test_what_is_no_bandwidth_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SpecError, match=r"bandwidth.*125MB/s|too large"):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    ("text", "bits", "octets"),
    [
        ("1GBps", "1Gbps", "1GB/s"),
        ("2.5MBPS", "2.5Mbps", "2.5MB/s"),
        ("100mb/s", "100Mbps", "100MB/s"),
        ("1000KBps", "1000kbps", "1000kB/s"),
    ],
)
def test_a_bandwidth_that_may_be_bits_or_bytes_is_refused_with_both(text: str, bits: str, octets: str) -> None:
    with pytest.raises(SpecError, match=f"write {bits} for bits, or {octets} for bytes"):
        parse_bandwidth(text)


def test_megabits_are_no_amount_of_bytes() -> None:
    with pytest.raises(SpecError, match="Mb are bits; write MB for bytes"):
        parse_bytes("25Mb")


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1024, 1500, 2**20, 25_000_000, 10**9, 2**30, 123_456_789_012])
def test_written_bytes_are_read_back_as_the_same_number(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count


def test_bytes_are_written_in_the_largest_unit_that_is_exact() -> None:
    assert [format_bytes(n) for n in (25_000_000, 1500, 2**20, 10**9)] == ["25MB", "1500B", "1048576B", "1GB"]


@pytest.mark.parametrize("text", ["", "MB", "-5MB", "1..5MB", "five", "1,5MB", "nan", "inf"])
def test_what_is_not_a_quantity_is_refused_with_the_value_and_examples(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_bytes(text)
    assert repr(text) in str(refused.value)
    assert "25MB" in str(refused.value)
    with pytest.raises(SpecError) as refused:
        parse_seconds(text)
    assert repr(text) in str(refused.value)
    assert "90s" in str(refused.value)


def test_an_unknown_unit_is_refused_with_the_value_and_the_units_there_are() -> None:
    with pytest.raises(SpecError, match=r"'5 stones' is not an amount of bytes: .* B, KB, MB, GB, KiB, MiB, GiB"):
        parse_bytes("5 stones")
    with pytest.raises(SpecError, match=r"'5MB' is not a time: .* us, ms, s, m, h"):
        parse_seconds("5MB")


def test_a_quantity_too_large_for_a_number_is_refused() -> None:
    for text in ("1e400", "1e308GB"):
        with pytest.raises(SpecError, match="too large"):
            parse_bytes(text)
    with pytest.raises(SpecError, match="too large"):
        parse_seconds("1e308h")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (25_400_000, "25.4 MB"), (1.5e9, "1.5 GB"), (12.3, "12 B")],
)
def test_bytes_are_shown_with_four_digits(count: float, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12.3ms"),
        (0.9994, "999ms"),
        (0.9996, "1s"),
        (1.0, "1s"),
        (59.94, "59.9s"),
        (83.2, "1m23s"),
        (3599.6, "1h00m"),
        (7260, "2h01m"),
    ],
)
def test_times_are_shown_as_people_say_them(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text

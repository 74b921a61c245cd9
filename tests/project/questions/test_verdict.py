"""Worth it or not: a verdict with its odds, and the count to measure next."""

import pytest

from paceline.errors import SpecError
from paceline.project.curve import Point, Projected
from paceline.project.questions.extra import worth
from paceline.project.questions.verdict import Verdict, parse_worth, verdict


def point(workers: int, rate: float | None, spread: float = 0.0) -> Projected:
    low, high = (None, None) if rate is None else (rate / (1 + spread), rate * (1 + spread))
    return Projected(Point(workers), rate, None, low, high, low, high, limit="compute")


def judged(rate: float, spread: float, narrowed: dict[int, float] | None = None) -> Verdict:
    after = narrowed or {}
    found = verdict(
        point(8, 800), point(64, rate, spread), 0.5, (1, 2, 4, 8), lambda n: point(64, rate, after.get(n, spread))
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rate", "spread", "decision"),
    [(6000, 0.1, "worth it"), (1500, 0.2, "not worth it"), (3700, 0.3, "open"), (6000, 2.0, "open")],
)
def test_a_gain_is_worth_it_where_the_band_has_half_of_what_it_could_be(
    rate: float, spread: float, decision: str
) -> None:
    found = judged(rate, spread)
    assert found.decision == decision
    assert found.gain == pytest.approx(rate / 800)
    assert found.share == pytest.approx((rate / 800 - 1) / 7)
    assert (found.odds >= 0.9, found.odds <= 0.1) == (decision == "worth it", decision == "not worth it")


def test_the_smallest_count_that_would_decide_is_to_be_measured_next() -> None:
    found = judged(4500, 0.5, {16: 0.4, 32: 0.1, 64: 0.01})
    assert [each.workers for each in found.candidates] == [16, 32, 64]
    assert found.decision == "open"
    assert found.measure_next == 32
    assert [each.narrower for each in found.candidates] == sorted(each.narrower for each in found.candidates)
    hardly = judged(3650, 0.5, {16: 0.45, 32: 0.4, 64: 0.3})
    assert hardly.measure_next == 64, "none would decide, so the one that narrows most"


def test_a_count_that_was_not_measured_has_its_own_band() -> None:
    known, unknown = (
        verdict(point(16, 1500, 0.2), point(64, 5000, 0.2), 0.5, measured, lambda _: point(64, 5000, 0.2))
        for measured in ((1, 16), (1, 8))
    )
    assert known is not None
    assert unknown is not None
    assert unknown.low80 < known.low80
    assert 16 in [each.workers for each in unknown.candidates]


def test_the_verdict_is_told_in_words() -> None:
    sentences = worth(judged(4500, 0.5, {32: 0.1, 64: 0.01}), 8, 64).sentences
    assert sentences[0].startswith("64 instead of 8 workers bring 5.625 times the throughput (80 %: 3.75 to 8.438)")
    assert sentences[1].startswith("Not decided: the odds of at least 50% of the ideal gain are 7")
    assert "measure 32 workers next" in sentences[2]
    assert worth(None, 8, 64).data == {"worth": None}
    assert verdict(point(8, None), point(64, None), 0.5, (8,), lambda _: point(64, None)) is None


@pytest.mark.parametrize("text", ["8", "8,64,128", "64,8", "8,8", "a,b", "0,8"])
def test_two_counts_are_needed(text: str) -> None:
    with pytest.raises(SpecError, match=r"as in 8,64"):
        parse_worth(text)
    assert parse_worth("8, 64") == (8, 64)

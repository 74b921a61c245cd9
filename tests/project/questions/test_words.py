"""The sentences of an answer, as a reader sees them."""

import pytest

from paceline.project.curve import Point, Projected, ProjectedCurve
from paceline.project.questions import words
from paceline.project.questions.answer import Answer
from paceline.project.questions.extra import costs

KNOWN = Projected(Point(4), 19_520.0, 0.01, 18_000.0, 21_000.0, 17_000.0, 22_000.0, limit="latency")
UNKNOWN = Projected(Point(4), None, 0.01, None, None, None, None, limit="compute")


def curve(point: Projected, knee: int | None = None) -> ProjectedCurve:
    return ProjectedCurve("ring", (point,), knee, "tables", ())


@pytest.mark.parametrize(
    ("knee", "sentence"),
    [
        (None, "No knee in range: doubling the workers still adds at least 50 %."),
        (1, "The knee is at 1 worker: doubling the workers adds less than 50 %."),
        (3, "The knee is at 3 workers: doubling the workers adds less than 50 %."),
    ],
)
def test_the_knee_is_given_with_what_it_means(knee: int | None, sentence: str) -> None:
    first, limit, last = words.sentences(curve(KNOWN, knee), "images/s")
    assert first == ("4 workers would reach 19,520 images/s (80 %: 18,000 to 21,000; 95 %: 17,000 to 22,000).")
    assert limit == "The limit there is latency."
    assert last == sentence


def test_cost_without_throughput_is_unavailable() -> None:
    answer = Answer(curve=curve(UNKNOWN), subject="s", unit="images/s", measured=(), measured_as="s")
    assert costs(answer, 2.5).sentences == ("Cost unavailable: throughput unknown.",)


def test_a_curve_that_is_not_concave_is_said_to_be() -> None:
    lifted = ProjectedCurve("ring", (KNOWN,), None, "tables", (), weak_doublings=((1, 1), (5, 8)))
    assert (
        "not concave: doubling 1 worker and 5 to 8 workers adds less than 50 %" in words.sentences(lifted, "img/s")[-1]
    )

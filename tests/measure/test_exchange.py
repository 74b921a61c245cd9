"""Buckets and gradients: medians over the steps that were watched, and what of the exchange was hidden."""

from typing import Any

import numpy as np
import pytest

from paceline.measure.exchange import buckets_of, gradients_of, hidden_seconds
from paceline.measure.series import WorkerSeries
from paceline.workers.report import TensorSize

STEPS = 6
TIMED = slice(2, STEPS)


def worker(buckets: list[tuple[float, float, float]], *, arrival: float = 0.5, shift: float = 0.0) -> WorkerSeries:
    """Every step begins a second after the one before; backward after 0.1 s. Buckets: ready, start, end after that."""
    begin = np.arange(STEPS, dtype=np.float64) + shift
    rows = [(s, i, 100 * (i + 1), *(begin[s] + 0.1 + np.array(b))) for s in range(STEPS) for i, b in enumerate(buckets)]
    table = np.array(rows, dtype=float).reshape(-1, 6)
    names = ("step", "index", "bytes", "ready", "start", "end")
    return WorkerSeries(
        begin=begin,
        end=begin + 1,
        backward_begin=begin + 0.1,
        arrival=begin + arrival,
        **{f"bucket_{name}": table[:, column] for column, name in enumerate(names)},
        gradient_step=np.array([0.0, 4.0]),
        gradient_ready=np.array([[9.0, 9.0], [0.2 + shift, 0.1 + shift]]),
    )


def test_moments_of_buckets_count_from_the_beginning_of_backward() -> None:
    workers = [worker([(0.1, 0.12, 0.2), (0.3, 0.3, 0.6)]), worker([(0.1, 0.14, 0.2), (0.3, 0.3, 0.6)])]
    first, second = buckets_of(workers, [TIMED, TIMED])
    assert (first.bucket, first.bytes) == (0, 100)
    assert first.start_seconds == pytest.approx(0.13)  # between both workers
    assert [second.ready_seconds, second.start_seconds, second.end_seconds] == pytest.approx([0.3, 0.3, 0.6])
    assert second.bytes == 200


@pytest.mark.parametrize(
    ("buckets", "hidden"),
    [
        ([(0.1, 0.1, 0.2)], 0.1),  # over before the last gradient
        ([(0.1, 0.1, 0.3), (0.2, 0.2, 0.35)], 0.25),  # side by side: time counts once
        ([(0.1, 0.1, 0.2), (0.3, 0.3, 0.35)], 0.15),  # a gap does not count
        ([(0.3, 0.3, 0.9)], 0.1),  # until the arrival at 0.4
        ([(0.4, 0.41, 0.9)], 0.0),  # begun afterwards
    ],
)
def test_hidden_is_what_was_under_way_before_the_last_gradient_was_ready(buckets: Any, hidden: float) -> None:
    assert hidden_seconds([worker(buckets)], [TIMED]) == pytest.approx(hidden)


def test_without_buckets_nothing_is_claimed() -> None:
    assert buckets_of([worker([])], [TIMED]) == ()
    assert hidden_seconds([worker([])], [TIMED]) is None


def test_gradients_are_medians_over_sampled_steps_that_were_timed() -> None:
    tensors = [TensorSize(name="a", bytes=4, shape=(1,)), TensorSize(name="b", bytes=8, shape=(2,))]
    a, b = gradients_of([worker([]), worker([], shift=0.02)], [TIMED, TIMED], tensors)
    assert (a.name, a.bytes, b.name) == ("a", 4, "b")
    assert (a.ready_seconds, b.ready_seconds) == pytest.approx((0.21, 0.11))
    assert gradients_of([worker([])], [slice(1, 3)], tensors) == ()

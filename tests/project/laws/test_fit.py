import numpy as np
import pytest

from paceline.project.laws.base import Settings
from paceline.project.laws.fit import condensed, fit

COUNTS = np.array([1.0, 2, 4, 8, 16])


def bare(counts: np.ndarray) -> Settings:
    return Settings(counts, None, None)


def projected(seconds: np.ndarray, asked: float) -> float:
    posterior = fit(bare(COUNTS), seconds)
    return float(np.exp(np.median(posterior.log_seconds(bare(np.array([asked]))))))


def test_a_ring_is_recognised_and_goes_on_as_a_ring() -> None:
    seconds = 1 + 0.3 * (COUNTS - 1) / COUNTS
    posterior = fit(bare(COUNTS), seconds)
    assert sum(share for name, share in posterior.shares.items() if name.startswith("ring")) > 0.9
    assert projected(seconds, 64) == pytest.approx(1.295, rel=0.03)


def test_a_gather_is_recognised_and_goes_on_as_a_gather() -> None:
    seconds = 1 + 0.05 * (COUNTS - 1)
    posterior = fit(bare(COUNTS), seconds)
    assert sum(share for name, share in posterior.shares.items() if name.startswith("gather")) > 0.9
    assert projected(seconds, 64) == pytest.approx(4.15, rel=0.06)


def test_scaling_without_loss_goes_on_without_loss() -> None:
    assert projected(np.ones_like(COUNTS), 32) == pytest.approx(1, rel=0.03)


def test_one_bad_row_does_not_decide() -> None:
    seconds = 1 + 0.3 * (COUNTS - 1) / COUNTS
    bad = seconds.copy()
    bad[2] *= 1.3
    assert projected(bad, 64) == pytest.approx(projected(seconds, 64), rel=0.12)


def test_answers_repeat_and_do_not_depend_on_units() -> None:
    seconds = 1 + 0.1 * (COUNTS - 1)
    assert projected(seconds, 64) == projected(seconds, 64)
    assert projected(1e-6 * seconds, 64) == pytest.approx(1e-6 * projected(seconds, 64), rel=0.01)


def test_rows_are_less_sure_of_what_noise_hides() -> None:
    noise = np.array([1.0, 1.05, 0.95, 1.05, 0.95])
    clear, noisy = (fit(bare(COUNTS), seconds) for seconds in (np.ones(5), noise))
    assert noisy.typical_noise > 2 * clear.typical_noise


def test_repeats_become_their_median_and_rows_of_one_place_count_less_each() -> None:
    at = Settings(np.array([1.0, 1, 1, 2, 2]), np.ones(5), np.array([8.0, 8, 8, 8, 16]))
    rows = condensed(at, np.array([1.0, 1.1, 5.0, 2.0, 3.0]))
    assert np.exp(rows.log_seconds) == pytest.approx([1.1, 2, 3])
    assert rows.weight[0] < 3
    assert rows.scatter == pytest.approx(1.4826 * np.log(1.1))
    assert rows.weight[1] == rows.weight[2] < 1


def test_compute_is_no_longer_than_what_synchronising_leaves() -> None:
    # Without one worker alone, steps that hardly grow may be all compute, or mostly the exchange of a ring.
    counts, seconds = np.array([8.0, 16, 32]), np.array([1.0, 1.01, 1.02])
    silent, told = (fit(bare(counts), seconds, rest) for rest in (None, 0.3 * seconds))
    parts = [posterior.composition(bare(np.array([8.0])))["compute"][0] for posterior in (silent, told)]
    assert parts[0] > 0.7
    assert parts[1] < 0.5


def test_a_bound_that_is_not_known_changes_nothing() -> None:
    seconds = 1 + 0.3 * (COUNTS - 1) / COUNTS
    asked = bare(np.array([64.0]))
    without, unknown = (fit(bare(COUNTS), seconds, rest) for rest in (None, np.full(5, np.inf)))
    assert unknown.log_seconds(asked) == pytest.approx(without.log_seconds(asked))


def test_the_parts_of_a_step_add_up() -> None:
    posterior = fit(bare(COUNTS), 1 + 0.05 * (COUNTS - 1))
    shares = posterior.composition(bare(np.array([1.0, 64])))
    assert sum(shares.values()) == pytest.approx([1, 1])
    assert shares["compute"][1] < 0.5 < shares["exchange"][1]

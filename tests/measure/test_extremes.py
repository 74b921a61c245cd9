"""The expected maximum of n normal deviates: right, and the same for whoever asks how far the slowest is behind."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from paceline.explain import waiting
from paceline.measure.extremes import Z80, Z95, expected_maximum, maximum_bound
from paceline.project.simulation import profile_step, simulate


@pytest.mark.parametrize(
    ("count", "expected"),
    # Closed forms of two to four deviates; ten, a hundred and a thousand from tables of order statistics.
    [
        (1, 0.0),
        (2, 1 / math.sqrt(math.pi)),
        (3, 1.5 / math.sqrt(math.pi)),
        (4, 6 / math.pi**1.5 * math.atan(math.sqrt(2))),
        (10, 1.53875),
        (100, 2.50759),
        (1000, 3.24144),
    ],
)
def test_the_expected_maximum_is_that_of_the_tables(count: int, expected: float) -> None:
    assert expected_maximum(count) == pytest.approx(expected, abs=5e-6)


def test_it_grows_with_every_further_worker_and_stays_below_its_bound() -> None:
    counts = np.unique(np.geomspace(1, 1e8, 200).round())
    maxima = np.array([expected_maximum(int(n)) for n in counts])
    assert np.all(np.diff(maxima) > 0)
    assert np.all(maxima[1:] < maximum_bound(counts[1:]))
    assert maxima[-1] > 0.9 * maximum_bound(counts[-1:])[0]


def test_explain_and_simulation_use_the_same_function() -> None:
    for module in (waiting, simulate, profile_step):
        assert vars(module)["expected_maximum"] is expected_maximum


def test_bands_are_as_wide_as_the_normal_distribution_says() -> None:
    assert pytest.approx([NormalDist().inv_cdf(0.9), NormalDist().inv_cdf(0.975)], abs=5e-5) == [Z80, Z95]

"""The slowest of many equal workers: the expected maximum of n normal deviates."""

import functools
import math

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.float64]

Z80, Z95 = 1.2816, 1.96
"""Half the width of a normal band that contains 80 % or 95 %, in standard deviations."""

# The integrand is smooth and vanishes at both ends, so this grid is exact to ten digits.
_STEP = 0.05
_Z = np.arange(-180, 181) * _STEP


@functools.cache
def _normal() -> tuple[_Array, _Array]:
    """The normal density on the grid, and the logarithm of its distribution function."""
    below = np.array(
        [
            math.log1p(-math.erfc(z / math.sqrt(2)) / 2) if z > 0 else math.log(math.erfc(-z / math.sqrt(2)) / 2)
            for z in _Z
        ]
    )
    return np.exp(-(_Z**2) / 2) / math.sqrt(2 * math.pi), below


@functools.cache
def expected_maximum(count: int) -> float:
    """Expected maximum of `count` standard normal deviates: ∫ z · n φ(z) Φ(z)ⁿ⁻¹ dz.

    It is how far the slowest of equal workers is expected to be behind the mean, in standard deviations.
    """
    if count == 1:
        return 0.0
    density, log_below = _normal()
    return float(np.sum(_Z * count * density * np.exp((count - 1) * log_below)) * _STEP)


def maximum_bound(counts: _Array) -> _Array:
    """√(2 ln n): above the expected maximum for every n, and near it for many.

    Laws use it as the shape of a growth whose scale is fitted. With the exact maximum instead, projections of hidden
    rows of the published tables are slightly worse: see docs/how-well-it-projects.md for the cases.
    """
    return np.asarray(np.sqrt(2 * np.log(counts)))

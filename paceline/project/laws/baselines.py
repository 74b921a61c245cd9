"""Baselines for a projection: linear scaling, Amdahl's law, the scalability law, a non-negative least-squares fit."""

from collections.abc import Callable

import numpy as np

from paceline.project.laws.base import Array

# Step time as a sum of these, none negative. Amdahl: throughput ∝ n / (1 + σ(n − 1)); scalability: also κ·n(n − 1).
_TERMS: dict[str, tuple[Callable[[Array], Array], ...]] = {
    "Amdahl": (np.ones_like, lambda n: n - 1),
    "scalability law": (np.ones_like, lambda n: n - 1, lambda n: n * (n - 1)),
    "non-negative fit": (np.ones_like, lambda n: 2 * (n - 1) / n, lambda n: n - 1, np.log2),
}
NAMES = ("linear", *_TERMS)


def baseline(name: str, workers: Array, seconds: Array, asked: Array) -> Array:
    """Step times at other worker counts by one of the `NAMES`, fitted by least squares of relative errors."""
    if name == "linear":
        return np.full_like(asked, np.median(seconds[workers == workers.min()]))
    from scipy.optimize import nnls  # slow to import

    terms = _TERMS[name]
    known, wanted = (np.stack([term(counts) for term in terms], axis=1) for counts in (workers, asked))
    factors, _ = nnls(known / seconds[:, None], np.ones_like(seconds))
    return np.asarray(wanted @ factors)

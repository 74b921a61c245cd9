"""How near a smooth law can come to Pollux's hidden rows at all: laws fitted to those rows themselves.

    PACELINE_DATA=… python benchmarks/hindsight.py

Each law is a step's compute, linear in the batch, and an exchange that is partly overlapped with it and grows in one
of five ways. Its parameters are chosen on the hidden rows, by the mean error that is then reported: a projection, which
does not know those rows, cannot be expected to do better with such a law.
"""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from paceline.project.laws.base import Array, Settings, partly_overlapped
from paceline.project.laws.heldout import HeldOutTable, pollux

Growth = Callable[[Array, Settings], Array]

GROWTHS: dict[str, tuple[int, Growth]] = {
    "constant": (1, lambda p, at: p[0] * np.ones_like(at.workers)),
    "a + b · log nodes": (2, lambda p, at: p[0] + p[1] * np.log(_nodes(at))),
    "a + b · log workers": (2, lambda p, at: p[0] + p[1] * np.log(at.workers)),
    "a + b · workers": (2, lambda p, at: p[0] + p[1] * at.workers / 32),
    "a + b · workers + c · nodes": (3, lambda p, at: p[0] + p[1] * at.workers / 32 + p[2] * _nodes(at) / 12),
}
STARTS, ROUNDS = 4, 4
"""Powell's search is begun anew from where it ended, and from other places."""


def _nodes(at: Settings) -> Array:
    assert at.nodes is not None
    return at.nodes


def seconds(logs: Array, at: Settings, growth: Growth) -> Array:
    """A step, in units of the typical one: two parameters of computing, one of hiding, the rest of the exchange."""
    assert at.batch is not None
    found = np.exp(logs)
    compute = found[0] + found[1] * at.batch / at.batch.mean()
    return partly_overlapped(compute, growth(found[3:], at), found[2])


def best(case: HeldOutTable, parameters: int, growth: Growth) -> tuple[float, float]:
    """Mean error and 90th percentile with the parameters that make the mean smallest."""
    measured = case.hidden.seconds / np.median(case.hidden.seconds)

    def errors(logs: Array) -> Array:
        return np.abs(seconds(logs, case.hidden.at, growth) / measured - 1)

    generator = np.random.default_rng(0)
    ends = []
    for start in range(STARTS):
        logs = np.array([-2.0, -1.0, 0.0, -0.5, *[-2.0] * (parameters - 1)])
        logs = logs + (generator.normal(0, 0.3, len(logs)) if start else 0)
        for _ in range(ROUNDS):
            found = minimize(lambda logs: float(errors(logs).mean()), logs, method="Powell")
            logs = found.x
        ends.append(found)
    away = errors(min(ends, key=lambda end: float(end.fun)).x)
    return float(away.mean()), float(np.quantile(away, 0.9))


def main() -> None:
    """A line per model and law."""
    print("| model | the exchange grows as | mean error in hindsight | 90th percentile |")
    print("|---|---|---:|---:|")
    for case in pollux(Path(os.environ.get("PACELINE_DATA", "data")) / "pollux"):
        if case.label.endswith("16"):
            for name, (parameters, growth) in GROWTHS.items():
                mean, high = best(case, parameters, growth)
                print(f"| {case.label} | {name} | {mean:.1%} | {high:.1%} |", flush=True)


if __name__ == "__main__":
    main()

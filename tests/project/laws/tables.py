"""Tables for the tests of projections."""

import numpy as np

from paceline.project.laws.table import ScalingTable, settings_of


def table(
    workers: list[int], throughput: list[float], nodes: list[int] | None = None, batch: list[float] | None = None
) -> ScalingTable:
    counts = np.array(workers, float)
    at = settings_of(
        counts, None if nodes is None else np.array(nodes, float), None if batch is None else np.array(batch, float)
    )
    samples = counts if batch is None else counts * np.array(batch, float)
    return ScalingTable("test", at, samples / np.array(throughput), batch is not None, 1.0, "images/s", ())

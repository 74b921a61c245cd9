"""A table with one more row, as the laws project it: what a measurement there would be worth."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from paceline.project.laws.base import Array, Settings
from paceline.project.laws.table import ScalingTable, settings_of


def with_row(table: ScalingTable, at: Settings, bands: Callable[[Settings], tuple[Array, ...]]) -> ScalingTable:
    """The table with a row at the median of `bands`, which are logarithms of seconds."""
    own = table.at
    workers = np.append(own.workers, at.workers)
    order = np.argsort(workers, kind="stable")
    nodes = None if own.nodes is None or at.nodes is None else np.append(own.nodes, at.nodes)[order]
    batch = None if own.batch is None or at.batch is None else np.append(own.batch, at.batch)[order]
    sync = None if table.sync_seconds is None else np.append(table.sync_seconds, np.nan)[order]
    seconds = np.append(table.seconds, np.exp(bands(at)[0]))[order]
    return replace(table, at=settings_of(workers[order], nodes, batch), seconds=seconds, sync_seconds=sync)

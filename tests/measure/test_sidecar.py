"""The sidecar: series come back as they were, and a damaged file is named."""

from pathlib import Path

import numpy as np
import pytest

from paceline.errors import DataError
from paceline.measure import sidecar
from paceline.record import SIDECAR_NAME


def test_series_come_back_in_order_of_rank(tmp_path: Path) -> None:
    workers = [
        {"end": np.arange(3.0) + rank, "gradient_ready": np.full((2, 4), rank, dtype=float)} for rank in range(12)
    ]
    sidecar.save(tmp_path, workers)
    loaded = sidecar.load(tmp_path)
    assert len(loaded) == 12
    for before, after in zip(workers, loaded, strict=True):
        assert before.keys() == after.keys()
        for name in before:
            np.testing.assert_array_equal(before[name], after[name])


def test_a_missing_or_damaged_sidecar_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"series.npz is not a readable sidecar"):
        sidecar.load(tmp_path)
    sidecar.save(tmp_path, [{"end": np.arange(300.0)}])
    whole = (tmp_path / SIDECAR_NAME).read_bytes()
    for damaged in (b"", b"garbage", whole[: len(whole) // 2]):
        (tmp_path / SIDECAR_NAME).write_bytes(damaged)
        with pytest.raises(DataError, match=r"series.npz is not a readable sidecar"):
            sidecar.load(tmp_path)

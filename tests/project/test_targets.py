from pathlib import Path

import numpy as np
import pytest
from project.tables import table

from paceline.errors import DataError
from paceline.project.curve import Curve, Point, Projected
from paceline.project.forecast import forecast
from paceline.project.targets import cost_per_unit, fit_samples, read_runs, time_to_target, workers_worth_having


def point(workers: int, throughput: float | None, batch: float | None = 64) -> Projected:
    ends = (None,) * 4 if throughput is None else tuple(throughput * f for f in (0.9, 1.1, 0.8, 1.2))
    return Projected(Point(workers, None, batch), throughput, None, *ends, limit="compute")


def test_the_law_of_samples_is_recovered() -> None:
    batches = np.array([1000.0, 8000, 32000, 64000])
    law = fit_samples(batches, 40e6 * (1 + batches / 47_000))
    assert np.median(law.critical_batch) == pytest.approx(47_000, rel=0.05)
    assert np.median(law.samples(16_000)) == pytest.approx(40e6 * (1 + 16 / 47), rel=0.01)


def test_published_epochs_give_the_critical_batch_that_is_known_of_them() -> None:
    law = fit_samples(np.array([1632.0, 8192, 32768, 65536]), np.array([35.0, 42, 56, 84.5]))
    assert 30_000 < np.median(law.critical_batch) < 70_000


def test_scattered_runs_make_the_band_wider() -> None:
    batches = np.array([1000.0, 2000, 4000, 8000])
    even = 1e6 * (1 + batches / 4000)
    widths = [
        np.ptp(np.quantile(np.log(fit_samples(batches, samples).samples(16_000)), [0.1, 0.9]))
        for samples in (even, even * np.array([1.3, 0.75, 1.3, 0.8]))
    ]
    assert widths[1] > 1.5 * widths[0]


def test_time_to_a_target_is_samples_over_throughput_with_both_bands() -> None:
    batches = np.array([64.0, 640])
    law = fit_samples(batches, 1e6 * (1 + batches / 640))
    found = time_to_target(law, point(10, 5000))
    assert found is not None
    assert found.seconds == pytest.approx(2e6 / 5000, rel=0.02)
    assert found.low80 < found.seconds / 1.1 < found.seconds / 0.9 < found.high80
    assert time_to_target(law, point(10, None)) is None
    assert time_to_target(law, point(10, 5000, batch=None)) is None


def test_more_workers_shorten_it_until_the_batch_is_too_large() -> None:
    law = fit_samples(np.array([100.0, 10_000]), 1e6 * (1 + np.array([100.0, 10_000]) / 2000))
    found = forecast(table([1, 2, 4, 8], [100, 199, 396, 790], batch=[100] * 4))
    times = [time_to_target(law, p) for p in found.curve([Point(n) for n in (1, 8, 64, 512)]).points]
    seconds = [t.seconds for t in times if t is not None]
    assert seconds[0] > 5 * seconds[1]
    assert seconds[2] < 2 * seconds[3]


def test_cost_and_workers_worth_having() -> None:
    assert cost_per_unit(point(4, 100), 9) == pytest.approx(4 * 9 / 3600 / 100)
    assert cost_per_unit(point(4, None), 9) is None
    curve = Curve("law", tuple(point(n, r) for n, r in ((1, 100), (2, 190), (4, 330), (8, 400))), None, "", ())
    assert [workers_worth_having(curve, e) for e in (0.99, 0.9, 0.8, 0.1)] == [1, 2, 4, 8]
    assert workers_worth_having(Curve("law", (point(1, None),), None, "", ()), 0.5) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("global_batch,samples\n64,1000\n", "at least two batches"),
        ("global_batch,samples\n64,1000\n128,many\n", "many"),
        ("global_batch,samples\n64,1000\n128,0\n", "above 0"),
        ("batch,samples\n64,1000\n", "global_batch"),
    ],
)
def test_runs_that_cannot_be_read_are_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=words):
        read_runs(file)

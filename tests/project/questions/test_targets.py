from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explain.situations import Situation, write
from project.laws.tables import table

from paceline.errors import DataError
from paceline.project.curve import Point, Projected
from paceline.project.laws.forecast import forecast
from paceline.project.questions.extra import worth_having
from paceline.project.questions.targets import (
    Reached,
    cost_per_unit,
    fit_samples,
    odds_of_efficiency,
    reached,
    read_runs,
    time_to_target,
)
from paceline.record import Record


def point(workers: int, throughput: float | None, batch: float | None = 64) -> Projected:
    if throughput is None:
        return Projected(Point(workers, None, batch), None, 0.1, None, None, None, None, limit="compute")
    low80, high80, low95, high95 = (throughput * f for f in (0.9, 1.1, 0.8, 1.2))
    step = None if batch is None else workers * batch / throughput
    return Projected(Point(workers, None, batch), throughput, step, low80, high80, low95, high95, limit="compute")


def test_the_law_of_samples_is_recovered() -> None:
    batches = np.array([1000.0, 8000, 32000, 64000])
    law = fit_samples(Reached(batches, 40e6 * (1 + batches / 47_000)))
    assert np.median(law.critical_batch) == pytest.approx(47_000, rel=0.05)
    assert np.median(law.samples(16_000)) == pytest.approx(40e6 * (1 + 16 / 47), rel=0.01)


def test_published_epochs_give_the_critical_batch_that_is_known_of_them() -> None:
    law = fit_samples(Reached(np.array([1632.0, 8192, 32768, 65536]), np.array([35.0, 42, 56, 84.5])))
    assert 30_000 < np.median(law.critical_batch) < 70_000


def test_scattered_runs_make_the_band_wider() -> None:
    batches = np.array([1000.0, 2000, 4000, 8000])
    even = 1e6 * (1 + batches / 4000)
    widths = [
        np.ptp(np.quantile(np.log(fit_samples(Reached(batches, samples)).samples(16_000)), [0.1, 0.9]))
        for samples in (even, even * np.array([1.3, 0.75, 1.3, 0.8]))
    ]
    assert widths[1] > 1.5 * widths[0]


def test_time_to_a_target_is_samples_over_throughput_with_both_bands() -> None:
    batches = np.array([64.0, 640])
    law = fit_samples(Reached(batches, 1e6 * (1 + batches / 640)))
    found = time_to_target(law, point(10, 5000))
    assert found is not None
    assert found.seconds == pytest.approx(2e6 / 5000, rel=0.02)
    assert found.low95 < found.low80 < found.seconds / 1.1 < found.seconds / 0.9 < found.high80 < found.high95
    assert time_to_target(law, point(10, None)) is None
    assert time_to_target(law, point(10, 5000, batch=None)) is None


def test_more_workers_shorten_it_until_the_batch_is_too_large() -> None:
    batches = np.array([100.0, 10_000])
    law = fit_samples(Reached(batches, 1e6 * (1 + batches / 2000)))
    found = forecast(table([1, 2, 4, 8], [100, 199, 396, 790], batch=[100] * 4))
    times = [time_to_target(law, p) for p in found.curve([Point(n) for n in (1, 8, 64, 512)]).points]
    seconds = [t.seconds for t in times if t is not None]
    assert seconds[0] > 5 * seconds[1]
    assert seconds[2] < 2 * seconds[3]


def test_cost_and_the_odds_of_an_efficiency() -> None:
    assert cost_per_unit(point(4, 100), 9) == pytest.approx(4 * 9 / 3600 / 100)
    assert cost_per_unit(point(4, None), 9) is None
    points = [point(n, r) for n, r in ((1, 100), (2, 190), (4, 330), (8, 400))]  # 80 %: a tenth either way
    odds = odds_of_efficiency(points, points[0], 0.8)
    assert [None if chance is None else round(chance, 2) for chance in odds] == [1.0, 0.98, 0.65, 0.0]
    assert odds_of_efficiency([point(2, None)], points[0], 0.8) == [None]
    assert odds_of_efficiency(points, point(1, None), 0.8) == [None] * 4


def test_an_efficiency_is_claimed_only_where_the_low_end_of_the_band_has_it() -> None:
    points = [point(n, r) for n, r in ((1, 100), (2, 190), (4, 330), (8, 400))]
    found = worth_having(points, points[0], 0.8)
    assert found.sentences == ("At an efficiency of 80% or better: up to 2 workers; 4 workers with odds of 65 %.",)
    assert (found.data["workers_worth_having"], found.data["workers_likely_worth_having"]) == (2, 4)
    none = worth_having(points[3:], points[0], 0.8)
    assert "none of these counts for certain; 8 workers with odds of less than 1 %" in none.sentences[0]


def run(folder: Path, batch: int, workers: int = 1, *, validated: bool = False, noise: float = 0.0) -> Record:
    """A loss that falls from 10 by 1 for every 100·(1 + B/64) samples of global batches B."""
    steps, whole = 80, batch * workers
    samples = whole * np.arange(1, steps + 1)
    losses = 10 - samples / (100 * (1 + whole / 64))
    noisy = losses + noise * np.random.default_rng(batch).standard_normal(steps)
    checks = [
        {"epoch": 1.0, "step": n, "samples": int(samples[n - 1]), "loss": float(losses[n - 1])} for n in (1, 40, 80)
    ]
    learning: dict[str, Any] = {
        "loss": noisy.tolist(),
        "validation": checks if validated else [],
        "val_loss": None,
        "updates": steps,
        "samples_seen": int(samples[-1]),
        "global_batch": whole,
        "lr": 0.1,
        "lr_rule": "none",
    }
    spec = {"strategy": "independent" if workers == 1 else "allreduce"}
    situation = Situation(workers=workers, samples=batch, spec=spec, record={"learning": learning})
    made = write(folder / f"{batch}-{workers}", situation, series=False)
    return Record.load(made)


@pytest.mark.parametrize("validated", [True, False])
def test_samples_to_a_loss_are_read_from_the_loss_curves_of_records(tmp_path: Path, validated: bool) -> None:
    runs = [run(tmp_path, *setting, validated=validated) for setting in ((32, 1), (64, 1), (64, 2))]
    found = reached(runs, 7.0)
    assert found.batches.tolist() == [32, 64, 128]
    # In a straight line from 10 to 7: three times what one takes.
    assert found.samples == pytest.approx(300 * (1 + found.batches / 64), rel=1e-6)
    law = fit_samples(found)
    assert law.critical.value == pytest.approx(64, rel=0.15)
    assert any(("validation" if validated else "training") in note for note in law.notes)


def test_a_batch_beyond_those_of_the_runs_widens_the_band_and_has_its_end() -> None:
    batches = np.array([64.0, 128])
    law = fit_samples(Reached(batches, 1e6 * (1 + batches / 128)))
    near, far = (time_to_target(law, point(n, 100.0 * n)) for n in (2, 64))
    assert near is not None
    assert far is not None
    assert far.high80 / far.low80 > 1.3 * near.high80 / near.low80
    assert time_to_target(law, point(200, 20_000.0)) is None


def test_noise_of_the_training_loss_does_not_bring_the_target_nearer(tmp_path: Path) -> None:
    runs = [run(tmp_path, batch, noise=0.5) for batch in (32, 64)]
    assert reached(runs, 5.0).samples == pytest.approx([500 * 1.5, 500 * 2], rel=0.15)


def test_runs_that_do_not_reach_a_loss_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    runs = [run(tmp_path, batch) for batch in (8, 32, 64)]
    found = reached(runs, 3.0)  # at batch 8 80 steps end at 4.3
    assert found.batches.tolist() == [32, 64]
    assert any("1 run " in note for note in found.notes)
    with pytest.raises(DataError, match="runs of none reached"):
        reached(runs, -99.0)
    with pytest.raises(DataError, match="runs of 64 reached"):
        reached(runs[:1] + runs[2:], 3.0)


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

"""Speed-up and efficiency against one worker on one device."""

from typing import Any

import pytest

from paceline.measure.scaling import scaling_rows
from paceline.record import Record


def run(rate: float, *, workers: int = 1, devices: int | None = None, host: str = "here", **spec: Any) -> Record:
    settings = {
        "workload": "vae",
        "batch": 8,
        "precision": "fp32",
        "feed": "dataset",
        "accumulate": 1,
        "cores_per_device": 1,
        "strategy": "independent" if workers == 1 else "allreduce",
        "workers": workers,
    }
    return Record(
        spec={**settings, **spec},
        workload={},
        environment={"host": host, "device_kind": "cpu"},
        devices=devices if devices is not None else workers,
        samples_timed=0,
        steps_timed=1,
        seconds_timed=1.0,
        warmup_steps=0,
        wall_seconds={},
        throughput={"value": rate},
        per_worker=[],
        servers=[],
        phases={},
        learning={},
        traffic={},
        strategy_report={},
    )


def test_ideal_is_the_devices_times_the_rate_of_one_worker_alone() -> None:
    one, four = scaling_rows([run(100), run(300, workers=4)])
    assert (one.ideal, one.speedup, one.efficiency) == (100, 1, 1)
    assert (four.ideal, four.speedup, four.efficiency) == (400, 3, 0.75)


def test_servers_on_devices_of_their_own_count_as_devices() -> None:
    _, own, shared = scaling_rows(
        [
            run(100),
            run(180, workers=2, devices=4, strategy="ps:servers=2,place=own"),
            run(180, workers=2, devices=2, strategy="ps:servers=2,place=shared"),
        ]
    )
    assert (own.ideal, own.speedup, own.efficiency) == (400, 1.8, pytest.approx(0.45))
    assert (shared.ideal, shared.speedup, shared.efficiency) == (200, 1.8, pytest.approx(0.9))


def test_workers_that_share_a_device_do_not_make_the_ideal_larger() -> None:
    _, sharing = scaling_rows([run(100), run(120, workers=4, devices=1)])
    assert (sharing.ideal, sharing.speedup, sharing.efficiency) == (100, 1.2, 1.2)


def test_without_a_one_worker_run_nothing_is_claimed() -> None:
    (row,) = scaling_rows([run(300, workers=4)])
    assert (row.ideal, row.speedup, row.efficiency) == (None, None, None)


def test_one_worker_with_a_strategy_is_a_row_and_not_a_baseline() -> None:
    (row,) = scaling_rows([run(90, workers=1, strategy="allreduce")])
    assert row.ideal is None


def test_of_several_baselines_the_best_is_taken_so_that_nothing_is_flattered() -> None:
    *_, two = scaling_rows([run(90), run(100), run(80), run(150, workers=2)])
    assert (two.ideal, two.efficiency) == (200, 0.75)


@pytest.mark.parametrize(
    "other",
    [
        {"workload": "nmt"},
        {"batch": 16},
        {"precision": "bf16"},
        {"feed": "synthetic"},
        {"accumulate": 2},
        {"cores_per_device": 2},
        {"host": "elsewhere"},
    ],
)
def test_a_run_of_another_kind_is_no_baseline(other: dict[str, Any]) -> None:
    _, row = scaling_rows([run(100, **other), run(150, workers=2)])
    assert row.ideal is None
    _, like = scaling_rows([run(100, **other), run(150, workers=2, **other)])
    assert like.ideal == 200

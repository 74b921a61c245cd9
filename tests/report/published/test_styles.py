"""Published layouts: the same columns in the same order, from records only."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from studies.quick import record_of

from paceline.errors import SpecError
from paceline.measure.scaling import ScalingRow, scaling_rows
from paceline.record import Record
from paceline.report.published import styles
from paceline.report.tables import PageTable
from paceline.spec import RunSpec

STYLES = ("seed-000", "seed-001", "seed-002", "seed-003", "seed-004")
HEADINGS = {
    "seed-000": (
        *("nodes", "np", "nranks_per_gpu", "GPUs", "imgs/sec"),
        *("epochs", "total_imgs_processed", "val_loss", "GPU_util%", "time"),
    ),
    "seed-001": ("GPUs", "machine", "time", "loss"),
    "seed-002": (
        *("GPU number", "Batch size", "Total time to process 20 batches (s)"),
        *("Processing speed (images/s)", "Speedup ratio"),
    ),
}


def run(workers: int = 1, rate: float = 100.0, **settings: Any) -> Record:
    spec = RunSpec(
        **{"workload": "vae", "strategy": "independent", "batch": 8, "steps": 4, **settings}, workers=workers
    )
    return record_of(spec, workers // spec.workers_per_device, rate)


def rows(*records: Record) -> list[ScalingRow]:
    return scaling_rows(records)


def texts(table: PageTable) -> list[tuple[str, ...]]:
    return [tuple(cell.text for cell in row) for row in table.rows]


PAIR = (run(1), run(2, 90.0, strategy="allreduce"))


@pytest.mark.parametrize(("style", "headings"), HEADINGS.items())
def test_a_style_has_the_columns_of_the_original_in_its_order(style: str, headings: tuple[str, ...]) -> None:
    assert [table.headings for table in styles.tables(style, rows(*PAIR))] == [headings, headings]


@pytest.mark.parametrize("style", STYLES)
def test_what_was_not_measured_is_a_dash_and_never_a_zero(style: str) -> None:
    learning = dataclasses.replace(PAIR[0].learning, loss=(), validation=(), val_loss=None)
    poor = [dataclasses.replace(r, utilisation=(), learning=learning) for r in PAIR]
    cells = [cell for table in styles.tables(style, rows(*poor)) for row in table.rows for cell in row]
    assert all(cell.text == "–" for cell in cells if cell.value in (None, 0, 0.0))
    dashes = {"seed-000": 6, "seed-001": 2, "seed-002": 0, "seed-003": 0, "seed-004": 1}
    assert sum(cell.text == "–" for cell in cells) == dashes[style]


def test_the_first_layout_counts_nodes_workers_devices_images_and_time() -> None:
    shared = run(4, 50.0, strategy="allreduce", workers_per_device=2)
    wall = dataclasses.replace(shared.wall_seconds, start_up=3.5, training=60.0)
    record = dataclasses.replace(shared, wall_seconds=wall)
    (table,) = styles.tables("seed-000", rows(record))
    assert texts(table) == [("1", "4", "2", "2", "200 (198–202)", "2", "128", "4.5", "90%", "1m3.5s")]
    assert table.title == "vae · allreduce · dataset, weak scaling, batch 8 per worker, lr 0.001, lr rule none"


def test_the_second_layout_has_minutes_and_the_loss_of_the_last_epoch() -> None:
    wall = dataclasses.replace(PAIR[0].wall_seconds, start_up=0.0, training=450.0)
    (table,) = styles.tables("seed-001", rows(dataclasses.replace(PAIR[0], wall_seconds=wall)))
    assert texts(table) == [("1", "here", "7.5 min", "1.5")], "steps 3 and 4 of the losses 4, 3, 2, 1"


def test_the_third_layout_has_twenty_batches_at_the_measured_pace_and_the_speed_up_that_follows() -> None:
    alone, together = styles.tables("seed-002", rows(*PAIR))
    assert texts(alone)[0] == ("1", "8", "1.600", "100 (99–101)", "1.00")
    assert texts(together)[0] == ("2", "8", "1.778", "180 (178.2–181.8)", "1.80 (1.77–1.83)")


def test_headings_name_what_the_workload_counts() -> None:
    words = dataclasses.replace(
        PAIR[0],
        workload=dataclasses.replace(PAIR[0].workload, unit="words"),
        throughput=dataclasses.replace(PAIR[0].throughput, unit="words/s"),
    )
    assert "words/sec" in styles.tables("seed-000", rows(words))[0].headings
    assert "total_samples_processed" in styles.tables("seed-000", rows(words))[0].headings
    assert "Processing speed (words/s)" in styles.tables("seed-002", rows(words))[0].headings


def test_the_fourth_layout_puts_the_places_where_images_are_made_side_by_side() -> None:
    feeds = {"synthetic": 100.0, "synthetic:at=host": 90.0, "dataset": 80.0}
    records = [run(n, rate, feed=feed, strategy="allreduce") for feed, rate in feeds.items() for n in (1, 2)]
    (table,) = styles.tables("seed-003", rows(*records))
    assert table.headings == ("#GPU", "paceline(GPU/CPU/Python)", "paceline(dataset)")
    assert texts(table) == [("1", "100/90/–", "80 (79.2–80.8)"), ("2", "200/180/–", "160 (158.4–161.6)")]


def test_the_fifth_layout_has_machines_versions_baselines_and_workloads_against_workers() -> None:
    many = [run(n, 90.0, workload=name, strategy="allreduce") for name in ("vae", "resnet18") for n in (2, 4)]
    alone = [run(1, 100.0, workload=name) for name in ("vae", "resnet18")]
    testbed, versions, baseline, results = styles.tables("seed-004", rows(*alone, *many))
    assert testbed.headings == ("Name", "GPU", "Bandwidth")
    assert texts(testbed) == [("here", "any", "–")]
    assert texts(versions) == [("Version",)]
    assert baseline.headings == ("", "vae, dataset, batch 8 (images/s)", "resnet18, dataset, batch 8 (images/s)")
    assert texts(baseline) == [("here", "100 (99–101)", "100 (99–101)")]
    pairs = ("Throughput (2 workers)", "Scalability (x)", "Throughput (4 workers)", "Scalability (x)")
    assert results.headings == ("", *pairs)
    assert texts(results)[1][1:] == (
        *("180 (178.2–181.8)", "1.80x (1.77–1.83)"),
        *("360 (356.4–363.6)", "3.60x (3.55–3.65)"),
    )


def test_rows_that_differ_in_more_than_workers_stand_in_tables_of_their_own() -> None:
    changes: list[dict[str, Any]] = [
        *({}, {"batch": 16}, {"feed": "dataset:shard=off"}, {"precision": "bf16"}),
        *({"optimizer": "sgd"}, {"clip_norm": 1.0}, {"accumulate": 2}),
    ]
    found = styles.tables("seed-000", rows(*(run(1, **{"optimizer": "own", **change}) for change in changes)))
    assert [len(table.rows) for table in found] == [1] * 7
    assert len({table.title for table in found}) == 7
    assert len({table.name for table in found}) == 7


def test_one_worker_alone_is_shown_for_each_optimizer() -> None:
    alone = [run(1, rate, optimizer=optimizer) for optimizer, rate in (("own", 100.0), ("sgd", 50.0))]
    _, _, baseline = styles.tables("seed-004", rows(*alone))
    assert baseline.headings[2] == "vae, dataset, batch 8, optimizer sgd (images/s)"
    assert texts(baseline) == [("here", "100 (99–101)", "50 (49.5–50.5)")]


def test_strong_scaling_is_named_with_the_batch_of_all_workers() -> None:
    records = [run(1, 100.0, batch=16), run(2, 90.0, batch=8, strategy="allreduce")]
    titles = [table.title for table in styles.tables("seed-002", rows(*records))]
    assert "strong scaling, batch 16 in total" in titles[1]


def notes(tables: Sequence[PageTable]) -> list[str]:
    return [note for table in tables for note in table.notes]


def test_what_a_heading_says_otherwise_is_noted_once() -> None:
    said = notes(styles.tables("seed-002", rows(*PAIR, run(4, 45.0, workers_per_device=2, strategy="allreduce"))))
    assert "GPU means a device: in these runs 1 core." in said
    assert any("4 on 2" in note for note in said)
    assert any("relative to one worker alone" in note for note in said)
    assert len(said) == len(set(said))


def test_an_unknown_style_is_refused_with_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"seed-00.*Did you mean 'seed-00\d'.*seed-004"):
        styles.named("seed-00")

"""The audit: every known fault is found by its check, sound tables are silent, a changed figure is caught."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from paceline import references
from paceline.references.audit import CHECKS, audit
from paceline.references.base import Method, Reference, Row, Series
from paceline.references.findings import Finding

SOUND = ("dgx1-p100", "gce-k80", "horovod-16", "mlperf-resnet50")

KNOWN = {
    "002 was timed without warm-up": ("seed-002", "window", "fault", "20 steps, 28.94 s at 1 worker"),
    "002: independent replicas look sub-linear": ("seed-002", "independent", "warning", "only 76% at 8 workers"),
    "002 again: 20 batches over 19": ("seed-002-again", "intervals", "fault", "over the time of 19: speeds are 5.26%"),
    "003: replicated sums, servers average": (
        "seed-003",
        "sum",
        "warning",
        "summed here but averaged in parameter_server",
    ),
    "003: not the same machines": ("seed-003", "machine", "warning", "but not on the same ones"),
    "total images/sec is one's times all": ("ec2-k80", "every worker", "fault", "the first node's rate times up to 8"),
    "004: gradients summed": ("seed-004", "sum", "warning", "up to 16 times as large"),
    "004: not compiled": ("seed-004", "compile", "warning", "72.07 to 90.94 images/s for one worker"),
    "004: compilation in the mean": ("seed-004", "window", "fault", "includes compilation"),
    "004: ideal of another machine": ("seed-004", "ideal", "fault", "over results of lm1 and lm6"),
    "004: servers' GPUs": ("seed-004", "servers", "fault", "does not count"),
    "004: 1 Gbit/s that is 7": ("seed-004", "bandwidth", "fault", "7 Gbit/s, but 1 Gbit/s is stated"),
    "004: speed-ups of another baseline": ("seed-004", "speed-up", "fault", "imply 23.85 for one worker"),
    "004: the machine is not said": ("seed-004", "machine", "warning", "13.1× against room, 13.21× against AWS"),
    "000: rank 0 times workers": ("seed-000", "every worker", "fault", "median of rank 0's rate times up to 16"),
    "000: last batch": ("seed-000", "last batch", "warning", "holds 96 samples and is counted as 128"),
    "000: loss by fewer updates": ("seed-000", "loss", "note", "143.9 at 1 worker to 208 at 16 workers while updates"),
    "000: above one worker's device": ("seed-000", "possible", "note", "143% at 4 workers that share"),
    "000: speed and time": ("seed-000", "time", "note", "take 5.1 s of 57.6 s"),
    "001: loss by fewer updates": ("seed-001", "loss", "note", "0.019 at 2 workers to 0.8 at 8 workers"),
    "001: different machines": ("seed-001", "machine", "fault", "T4 and DGX"),
    "001: a rank that cannot be": ("seed-001", "devices", "warning", "2 workers shows rank 4"),
}


@pytest.mark.parametrize("fault", KNOWN)
def test_a_known_fault_is_found_by_its_check(fault: str) -> None:
    name, check, severity, words = KNOWN[fault]
    found = [f for f in audit(references.load(name)) if (f.check, f.severity) == (check, severity)]
    assert any(words in finding.sentence for finding in found), [f.sentence for f in found]


def test_bandwidth_is_doubted_only_where_the_times_beat_the_link() -> None:
    (finding,) = [f for f in audit(references.load("seed-004")) if f.check == "bandwidth"]
    assert finding.series == ("Bert-base, 1 Gbps (picture)",), "the ResNets' fit, 0.8 to 1.4 Gbit/s, is the link"


def test_updates_of_report_000_are_counted_as_they_were() -> None:
    (finding,) = [f for f in audit(references.load("seed-000")) if f.check == "loss"]
    assert finding.series == ("images divided, MPS",), "where every worker sees all images nothing rises"
    assert "from 1,876 to 120" in finding.sentence


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_table_is_silent(name: str) -> None:
    assert audit(references.load(name)) == []


def test_faults_come_first_and_what_holds_for_several_series_is_said_once() -> None:
    findings = audit(references.load("seed-004"))
    severities = [finding.severity for finding in findings]
    assert severities == sorted(severities, key=("fault", "warning", "note").index)
    assert len({(f.check, f.sentence) for f in findings}) == len(findings)
    assert max(len(finding.series) for finding in findings) == len(references.load("seed-004").series)


def with_speeds_changed(factor: float) -> Iterator[tuple[str, Reference]]:
    """Every table with published speed-ups that follow, with one of its speeds changed."""
    for name in ("seed-002", "dgx1-p100"):
        reference = references.load(name)
        for position, series in enumerate(reference.series):
            for index, row in enumerate(series.rows):
                if row.throughput is None or not any(r.speedup for r in series.rows):
                    continue
                if row.speedup is None and row.workers != 1:
                    continue
                changed = dataclasses.replace(row, throughput=row.throughput * factor)
                rows = (*series.rows[:index], changed, *series.rows[index + 1 :])
                others = reference.series
                mutated = (*others[:position], dataclasses.replace(series, rows=rows), *others[position + 1 :])
                yield f"{name} {series.label} {row.workers}", dataclasses.replace(reference, series=mutated)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_one_speed_changed_by_a_tenth_is_caught_wherever_it_stands(factor: float) -> None:
    cases = list(with_speeds_changed(factor))
    assert len(cases) == 5 * 8 + 2 * 2
    missed = [where for where, table in cases if "speed-up" not in {f.check for f in audit(table)}]
    assert missed == []


def found(*rows: Row, check: str, method: Method | None = None, **settings: Any) -> list[Finding]:
    series = Series(label="s", rows=rows, method=method or Method(), **settings)
    table = Reference(name="t", title="t", source="a test", series=(series,))
    return [finding for finding in audit(table) if finding.check == check]


def row(workers: int, throughput: float | None = None, **more: Any) -> Row:
    return Row(workers=workers, throughput=throughput, **more)


def test_speedups_that_are_rounded_or_cut_follow() -> None:
    assert not found(row(1, 30.0), row(3, 80.0, speedup=2.66), check="speed-up")
    assert not found(row(1, 30.0), row(3, 80.0, speedup=2.67), check="speed-up")
    assert found(row(1, 30.0), row(3, 80.0, speedup=2.80), row(2, 55.0, speedup=1.83), check="speed-up")


def test_speedups_without_one_worker_must_agree_on_one() -> None:
    assert not found(row(2, 202.0, speedup=2.02), row(4, 390.0, speedup=3.9), check="speed-up")
    (finding,) = found(row(2, 202.0, speedup=2.02), row(4, 390.0, speedup=3.0), check="speed-up")
    assert "ranges from 100 to 130" in finding.sentence


def test_an_efficiency_that_does_not_follow_is_said_with_the_right_one() -> None:
    assert not found(row(1, 100), row(4, 360, efficiency=0.9), check="efficiency")
    (finding,) = found(row(1, 100), row(4, 360, efficiency=0.9, uncounted_devices=2), check="efficiency")
    assert "90.0% is 60.0% with 6 devices" in finding.sentence


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        ((row(1, 100), row(2, 208)), None),
        ((row(1, 100), row(2, 240)), "fault"),
        ((row(2, efficiency=1.2),), "fault"),
        ((row(2, efficiency=1.2, efficiency_low=0.9),), "warning"),
        ((row(1, 100), row(2, 140, devices=1)), "warning"),
        ((row(1, 100, utilisation_percent=70), row(2, 140, devices=1)), "note"),
        ((row(1, 100, utilisation_percent=90), row(2, 140, devices=1)), "fault"),
    ],
)
def test_efficiency_beyond_the_possible_depends_on_what_one_worker_left_idle(
    rows: tuple[Row, ...], severity: str | None
) -> None:
    assert [f.severity for f in found(*rows, check="possible")] == ([severity] if severity else [])


@pytest.mark.parametrize("shard", [True, False])
def test_samples_are_epochs_times_data_in_either_mode(shard: bool) -> None:
    method = Method(dataset_samples=1000, shard=shard)
    right = 4 * 1000 * (1 if shard else 8)
    assert not found(row(8, epochs=4, samples=right), check="samples", method=method)
    (finding,) = found(row(8, epochs=4, samples=2 * right), check="samples", method=method)
    assert f"{right:,}, not {2 * right:,}" in finding.sentence


def test_a_rate_that_was_not_done_in_the_time_is_found() -> None:
    work = {"batch": 10, "steps": 19, "seconds": 10.0}
    assert not found(row(2, 38.0, **work), check="rate", units_per_sample=1)
    (finding,) = found(row(2, 40.0, **work), check="rate", units_per_sample=1)
    assert "+5.3%" in finding.sentence


def test_units_of_a_sample_that_are_not_known_must_at_least_be_the_same() -> None:
    rows = [row(n, 128 * 8 * n / 0.5, batch=8, step_seconds=0.5) for n in (1, 2, 4)]
    assert not found(*rows, check="rate")
    assert len(found(*rows[:2], dataclasses.replace(rows[2], throughput=128 * 8 * 4), check="rate")) == 1


def test_samples_that_need_longer_than_the_run_are_found() -> None:
    (finding,) = found(row(1, 100.0, samples=2000, seconds=15.0), check="time", units_per_sample=1)
    assert finding.severity == "fault"
    assert "take 20.0 s" in finding.sentence


def test_more_workers_than_devices_hold_are_found() -> None:
    assert not found(row(8, devices=4, workers_per_device=2), check="devices")
    assert found(row(8, devices=2, workers_per_device=2), check="devices")


def test_a_baseline_from_another_machine_is_found() -> None:
    assert not found(row(1, 100, machine="a"), row(2, 190, machine="a"), check="machine")
    (finding,) = found(row(1, 100, machine="a"), row(2, 190, machine="b"), check="machine")
    assert "were measured on b, one worker on a" in finding.sentence


def test_a_baseline_from_another_setting_is_found() -> None:
    assert not found(row(1, 100, batch=32), row(2, 190, batch=32), check="setting")
    assert not found(row(1, 100, batch=32), row(2, 190, batch=16), check="setting"), "strong scaling"
    assert found(row(1, 100, batch=32), row(2, 190, batch=64), check="setting")
    assert found(row(1, 100, batch=32), row(2, 190, batch=16), check="setting", scaling="weak")


def test_servers_are_counted_in_the_efficiency_that_is_told() -> None:
    (finding,) = found(row(1, 100), row(4, 360, uncounted_devices=2), check="servers")
    assert "60% at 4 workers with 6 devices" in finding.sentence


def test_a_loss_is_explained_only_where_updates_fell_and_the_rate_was_not_scaled() -> None:
    rows = (row(1, val_loss=1.0, updates=100), row(4, val_loss=2.0, updates=25))
    assert found(*rows, check="loss", method=Method(lr_rule="none"))
    assert not found(*rows, check="loss", method=Method(lr_rule="linear"))
    equal = (rows[0], dataclasses.replace(rows[1], updates=100))
    assert not found(*equal, check="loss", method=Method(lr_rule="none"))


def test_workers_that_exchange_nothing_may_scale_well() -> None:
    assert not found(row(1, 100), row(8, 760), check="independent", strategy="independent")
    assert not found(row(1, 100), row(8, 560), check="independent", strategy="allreduce")
    assert found(row(1, 100), row(8, 560), check="independent", strategy="independent")


def test_one_process_that_drives_all_workers_is_the_whole_rate() -> None:
    method = Method(rate_from="first process")
    assert not found(row(8, 100, nodes=1), check="every worker", method=method)
    assert found(row(16, 200, nodes=2), check="every worker", method=method)


def test_every_check_finds_something_in_the_references_or_is_tried_here() -> None:
    seen = {finding.check for name in references.names() for finding in audit(references.load(name))}
    tried_here = {"efficiency", "samples", "rate", "setting"}
    tried_with_records = {"remark"}
    assert seen | tried_here | tried_with_records == set(CHECKS)

"""The audit: every known fault is found by its check, sound tables are silent, a changed figure is caught."""

import cProfile
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
    tried_here = {"efficiency", "samples", "rate", "regular", "setting"}
    tried_with_records = {"remark"}
    assert seen | tried_here | tried_with_records == set(CHECKS)


def lines_of(findings: list[Finding]) -> list[int | None]:
    return [row.workers for finding in findings for row in finding.rows]


RATES = {1: 219.0, 2: 422.0, 4: 852.0, 8: 1734.0}


def changed(**rates: float) -> list[Row]:
    return [row(n, rates.get(f"at{n}", rate)) for n, rate in RATES.items()]


@pytest.mark.parametrize(
    ("rates", "workers", "severity", "words"),
    [
        ({"at4": 85}, [4], "fault", "a digit is missing"),
        ({"at8": 173}, [8], "fault", "a digit is missing"),
        ({"at8": 734}, [8], "warning", "a digit is missing, or the link is slow"),
        ({"at2": 211}, [2], "fault", "it is the rate of one worker"),
        ({"at8": 216.8}, [8], "fault", "it is the rate of one worker"),
        ({"at4": 0.852}, [4], "fault", "it is in another unit"),
        ({"at1": 2190}, [1], "fault", "The baseline is the odd row"),
        ({"at1": 422, "at2": 219}, [1, 2], "fault", "seem exchanged"),
        ({"at2": 1734, "at8": 422}, [2, 8], "fault", "seem exchanged"),
        ({"at1": 1734, "at8": 219}, [1, 8], "fault", "seem exchanged"),
    ],
)
def test_a_slip_in_a_bare_table_is_found_by_the_other_rows(
    rates: dict[str, float], workers: list[int], severity: str, words: str
) -> None:
    (finding,) = found(*changed(**rates), check="regular")
    assert (lines_of([finding]), finding.severity) == (workers, severity)
    assert words in finding.sentence


@pytest.mark.parametrize(
    "rates",
    [
        {},
        {"at2": 345},  # a fifth low, as single rows of sound tables are
        {"at8": 900},  # one more node, on a slow link
        {"at4": 330, "at8": 400},
        {"at2": 100, "at4": 180, "at8": 350},  # no exchange with one worker, an expensive one with more
    ],
)
def test_a_curve_that_can_be_is_not_accused(rates: dict[str, float]) -> None:
    assert {f.severity for f in found(*changed(**rates), check="regular")} <= {"note"}


def test_rows_are_compared_only_where_more_workers_in_the_same_setting_are_the_difference() -> None:
    spread = (row(1, 100, nodes=1), row(4, 180, nodes=4), row(4, 380, nodes=1), row(8, 700, nodes=2))
    assert not found(*spread, check="regular"), "four nodes with one worker each are no step between 1 and 8"
    batches = (row(1, 100, batch=8), row(2, 80, batch=1), row(4, 380, batch=8))
    assert not found(*batches, check="regular")
    machines = (row(1, 100, machine="a"), row(2, 40, machine="b"), row(4, 380, machine="a"))
    assert not found(*machines, check="regular")


def test_step_times_speedups_and_efficiencies_are_compared_where_there_is_no_speed() -> None:
    times = {1: 0.2, 2: 0.21, 4: 220.0, 8: 0.23}
    (finding,) = found(*(row(n, step_seconds=time) for n, time in times.items()), check="regular")
    assert (lines_of([finding]), "it is in another unit" in finding.sentence) == ([4], True)
    speedups = {2: 1.9, 4: 0.93, 8: 7.2, 16: 13.9}
    (finding,) = found(*(row(n, speedup=s) for n, s in speedups.items()), check="regular")
    assert (lines_of([finding]), "it is an efficiency" in finding.sentence) == ([4], True)
    shares = {2: 0.95, 4: 0.0093, 8: 0.91}
    (finding,) = found(*(row(n, efficiency=share) for n, share in shares.items()), check="regular")
    assert "percent or fraction" in finding.sentence


def test_two_rows_of_one_setting_that_differ_by_a_factor_are_found() -> None:
    (finding,) = found(row(1, 219), row(4, 852), row(4, 1734), check="regular")
    assert "Two rows of 4 workers" in finding.sentence
    assert not found(row(1, 219), row(4, 852), row(4, 900), check="regular")


def test_two_rows_with_equal_speeds_are_doubted() -> None:
    assert [f.severity for f in found(row(1, 219), row(8, 211), check="regular")] == ["warning"]
    assert not found(row(1, 130.9), row(16, 74.7), check="regular"), "the exchange may cost that much"


def test_a_noisy_table_with_many_counts_is_not_accused_and_its_slip_is_found() -> None:
    wave = [100 * n * (1 + 0.15 * ((7 * n) % 11 - 5) / 5) for n in range(1, 101)]
    rows = [row(n, rate) for n, rate in enumerate(wave, start=1)]
    assert {f.severity for f in found(*rows, check="regular")} <= {"note"}
    rows[49] = row(50, wave[49] / 50)
    assert lines_of([f for f in found(*rows, check="regular") if f.severity == "fault"]) == [50]


@pytest.mark.parametrize("factor", [0.6, 0.9, 1.1, 1.6])
def test_a_wrong_baseline_is_singled_out_where_the_other_rows_agree(factor: float) -> None:
    rows = [row(n, rate, speedup=round(rate / 219, 2)) for n, rate in RATES.items() if n > 1]
    (finding,) = found(row(1, 219 * factor, speedup=1.0), *rows, check="speed-up")
    assert finding.sentence.endswith("the row of 1 worker is the odd one.")
    assert 1 in lines_of([finding])
    shares = [row(n, rate, efficiency=round(rate / 219 / n, 2)) for n, rate in RATES.items() if n > 1]
    (finding,) = found(row(1, 219 * factor), *shares, check="efficiency")
    assert "the row of 1 worker is the odd one" in finding.sentence


def test_a_slow_baseline_of_a_bare_table_is_singled_out() -> None:
    (finding,) = found(*changed(at1=150), check="possible")
    assert "the row of 1 worker is the odd one. It has 150, each worker of the others 211 to 216.8" in finding.sentence
    assert len(found(*changed(at8=2500), check="possible")) == 1
    assert "odd one" not in found(*changed(at8=2500), check="possible")[0].sentence


def test_efficiencies_without_one_worker_must_agree_on_one() -> None:
    assert not found(row(2, 190, efficiency=0.95), row(4, 360, efficiency=0.9), check="efficiency")
    (finding,) = found(row(2, 190, efficiency=0.95), row(4, 360, efficiency=0.8), check="efficiency")
    assert "ranges from 100 to 112.5" in finding.sentence


def test_a_check_of_many_rows_looks_at_each_row_a_few_times() -> None:
    """Twice the rows take twice the lookups, not four times."""
    looked = []
    for many in (200, 400):
        rows = tuple(row(1 + index % 8, 100.0 + index % 8, batch=8, speedup=1.0) for index in range(many))
        series = Series(label="s", rows=rows)
        table = Reference(name="t", title="t", source="a test", series=(series,))
        profile = cProfile.Profile()
        profile.runcall(audit, table)
        looked.append(sum(entry.callcount for entry in profile.getstats()))
    assert looked[1] < 2.3 * looked[0]

"""Who waits for what: advice follows from what the thread did, and delays that come and go have words of their own."""

import re
from pathlib import Path

import pytest
from explain.situations import ALONE, USUAL, Situation, alone
from explain.test_causes import explain, named

SLEPT = {"update": 0.100}


def test_an_optimizer_that_sleeps_is_not_also_counted_as_blocked_compute(tmp_path: Path) -> None:
    phases = {**USUAL, "update": 0.103}
    for name, situation in (
        ("threads", Situation(phases=phases, threads=True, asleep=SLEPT)),
        ("process", Situation(phases=phases, cpu=sum(ALONE.values()), queued=0.0)),
    ):
        explanation = explain(tmp_path / name, situation)
        assert explanation.leading is not None
        assert explanation.leading.name == "update"
        assert explanation.leading.seconds == pytest.approx(0.103)
        assert named(explanation, "blocked") is None
    told = explain(tmp_path / "advice", Situation(phases=phases, threads=True, asleep=SLEPT))
    assert "what the optimizer waits for" in told.remedy


def test_the_phase_that_is_blocked_is_named(tmp_path: Path) -> None:
    situation = Situation(phases={**USUAL, "forward": 0.080}, threads=True, asleep={"forward": 0.050})
    leading = explain(tmp_path, situation).leading
    assert leading is not None
    assert leading.name == "blocked"
    assert leading.seconds == pytest.approx(0.050)
    assert "forward is blocked" in leading.sentence
    assert "what forward waits for" in leading.remedy


def test_what_is_blocked_in_the_baseline_too_is_no_gap(tmp_path: Path) -> None:
    slept = {"forward": 0.020}
    together = Situation(phases={**USUAL, "exchange": 0.05}, threads=True, asleep=slept)
    explanation = explain(tmp_path, together, alone(threads=True, asleep=slept))
    assert [cause.name for cause in explanation.causes] == ["exchange"]


@pytest.mark.parametrize("phase", ["input", "forward", "backward", "update"])
def test_a_sleep_of_one_worker_is_answered_by_its_phase_though_others_use_its_core(tmp_path: Path, phase: str) -> None:
    queued = {0: {"forward": 0.010}, 1: {"forward": 0.014}}
    situation = Situation(longer={1: {phase: 0.080}}, threads=True, waits_for_core=queued, outside_percent=60.0)
    leading = explain(tmp_path, situation).leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("straggler", 1)
    assert f"its {phase} takes 80.0 ms longer" in leading.sentence
    assert "Stop other processes" not in leading.remedy
    assert {"update": "optimizer"}.get(phase, phase) in leading.remedy
    assert any("which is not why" in line for line in leading.evidence)


def test_a_worker_that_queues_longer_than_its_peers_has_a_busy_core(tmp_path: Path) -> None:
    queued = {0: {"forward": 0.002}, 1: {"forward": 0.020, "backward": 0.030}}
    situation = Situation(threads=True, waits_for_core=queued, outside_percent=40.0)
    leading = explain(tmp_path, situation).leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("straggler", 1)
    assert leading.seconds == pytest.approx(0.048)
    assert "it waits 48.0 ms longer for its core" in leading.sentence
    assert "Stop other processes on cpu:1" in leading.remedy


@pytest.mark.parametrize("phase", ["input", "forward", "backward", "update"])
@pytest.mark.parametrize("workers", [2, 4])
def test_a_worker_late_every_fourth_step_is_named_with_its_period_and_its_mean_cost(
    tmp_path: Path, workers: int, phase: str
) -> None:
    late = (1, phase, 0.080, lambda step: step % 4 == 3)
    explanation = explain(tmp_path, Situation(workers=workers, steps=65, noise=0.001, at_times=[late]))
    leading = explanation.leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("intermittent straggler", 1)
    assert re.search(f"every 4th step, by (79|80).* ms in its {phase}", leading.sentence)
    assert leading.seconds == pytest.approx(0.020, rel=0.05)
    assert "Long steps: 7, 11, 15, …" in "".join(leading.evidence)
    assert named(explanation, "spread") is None
    assert named(explanation, "straggler") is None


@pytest.mark.parametrize("workers", [2, 4])
def test_rare_long_steps_cost_their_mean_and_not_half_of_it(tmp_path: Path, workers: int) -> None:
    rare = {17, 22, 60, 61, 97}
    situation = Situation(
        workers=workers, steps=105, noise=0.002, at_times=[(1, "backward", 0.500, lambda step: step in rare)]
    )
    leading = explain(tmp_path, situation).leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("intermittent straggler", 1)
    assert "in 5 of 100 steps, by 500" in leading.sentence
    assert leading.seconds == pytest.approx(5 * 0.500 / 100, rel=0.02)


def test_one_long_step_is_no_pattern(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(at_times=[(0, "forward", 2.0, lambda step: step == 30)]))
    leading = explanation.leading
    assert leading is not None
    assert "in 1 of 55 steps" in leading.sentence
    assert any("do not show whether it happens again" in line for line in leading.evidence)


@pytest.mark.parametrize("phase", ["input", "forward", "backward", "exchange", "update"])
def test_all_workers_pausing_at_once_is_no_straggler(tmp_path: Path, phase: str) -> None:
    situation = Situation(noise=0.001, steps=85, at_times=[(None, phase, 0.200, lambda step: step % 10 == 9)])
    explanation = explain(tmp_path, situation)
    leading = explanation.leading
    assert leading is not None
    assert (leading.name, leading.rank) == ("pauses", None)
    assert re.search(f"all workers pause at once in {phase} every 10th step, for (199|200)", leading.sentence)
    assert leading.seconds == pytest.approx(0.020, rel=0.05)
    assert all(cause.seconds < 0.005 for cause in explanation.causes[1:]), "no part of it counts twice"


def test_pauses_of_the_baseline_too_are_no_gap(tmp_path: Path) -> None:
    pause = [(None, "forward", 0.200, lambda step: step % 10 == 9)]
    explanation = explain(
        tmp_path, Situation(phases={**USUAL, "exchange": 0.05}, at_times=pause), alone(at_times=pause)
    )
    assert [cause.name for cause in explanation.causes] == ["exchange"]


def test_workers_that_really_take_turns_are_no_intermittent_stragglers(tmp_path: Path) -> None:
    lengths = (0.021, 0.034, 0.055, 0.089, 0.144)
    turns = [
        (rank, "backward", seconds, lambda step, rank=rank, n=n: (step * 7 + n * 3) % 40 == rank * 11)
        for rank in range(2)
        for n, seconds in enumerate(lengths)
    ]
    explanation = explain(tmp_path, Situation(steps=205, noise=0.004, at_times=turns))
    assert named(explanation, "intermittent straggler") is None
    spread = named(explanation, "spread")
    assert spread is not None
    assert spread.seconds == pytest.approx(sum(lengths) * 2 / 40 / 2 + 0.004 * 0.56, rel=0.2), "half of it is waiting"


def test_a_straggler_and_another_workers_rare_delays_are_told_apart(tmp_path: Path) -> None:
    situation = Situation(
        workers=4,
        steps=105,
        noise=0.001,
        longer={3: {"forward": 0.030}},
        at_times=[(1, "backward", 0.300, lambda step: step % 12 == 5)],
    )
    explanation = explain(tmp_path, situation)
    straggler, at_times = named(explanation, "straggler"), named(explanation, "intermittent straggler")
    assert straggler is not None
    assert at_times is not None
    assert (straggler.rank, at_times.rank) == (3, 1)
    assert straggler.seconds == pytest.approx(0.030, rel=0.05)
    events = len([step for step in range(5, 105) if step % 12 == 5])
    assert at_times.seconds == pytest.approx(0.270 * events / 100, rel=0.05), "30 ms of it would pass anyway"


def test_a_delay_hidden_behind_a_longer_one_of_another_worker_is_mentioned(tmp_path: Path) -> None:
    situation = Situation(longer={0: {"backward": 0.030}, 1: {"forward": 0.040}})
    straggler = named(explain(tmp_path, situation), "straggler")
    assert straggler is not None
    assert straggler.rank == 1
    assert straggler.seconds == pytest.approx(0.010)
    assert any("The others' backward takes 30.0 ms longer than its" in line for line in straggler.evidence)


def test_waiting_for_the_agreement_when_to_stop_is_waiting_and_not_other(tmp_path: Path) -> None:
    explanation = explain(tmp_path, Situation(agreed=0.050))
    leading = explanation.leading
    assert leading is not None
    assert leading.name == "agreement"
    assert leading.seconds == pytest.approx(0.050)
    assert explanation.case.setting.phases.wait == pytest.approx(0.050)
    assert explanation.case.setting.phases.other == pytest.approx(USUAL["other"])

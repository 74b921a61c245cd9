"""The clock of a worker: phases of every step, buckets of watched ones, gradients of sampled ones."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from slowed import compute
from torch import nn

from paceline.workers.timing.clock import Clock
from paceline.workers.timing.gradient_times import GradientTimes
from paceline.workers.timing.marks import PHASES
from paceline.workers.timing.ticks import DeviceTicks


class Told:
    """Ticks of a time that the test tells."""

    behind = 0

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def seconds(self, ticks: Sequence[float]) -> list[float]:
        return list(ticks)


class FakeEvent:
    """A GPU's event at a told time, which cannot be read before the device has been waited for."""

    def __init__(self, device: Told) -> None:
        self._device = device
        self.at = float("nan")
        self.passed = False

    def record(self) -> None:
        self.at = self._device.time

    def synchronize(self) -> None:
        self.passed = True

    def elapsed_time(self, later: "FakeEvent") -> float:
        assert self.passed
        assert later.passed
        return float(np.float32((later.at - self.at) * 1e3))


def step(clock: Clock, told: Told, seconds: float = 0.1, *, update: float = 0.0) -> None:
    """One step whose forward, backward, exchange and update are told."""
    for phase, share in (("input", 0.0), ("forward", 0.3), ("backward", 0.5), ("exchange", 0.2)):
        told.time += share * seconds
        clock.mark(phase)  # type: ignore[arg-type]
    told.time += update
    clock.mark("update")
    clock.end_step(samples=1, units=1, loss=0.0)


def test_phases_of_a_step_add_up_to_it_and_the_arrival_is_the_end_of_the_last_backward() -> None:
    clock = Clock()
    clock.begin()
    for _ in range(3):
        for phase in ("input", "forward", "backward", "forward", "backward", "exchange", "update"):
            time.sleep(0.004 if phase == "exchange" else 0.001)
            clock.mark(phase)
        clock.end_step(samples=8, units=24, loss=0.5)
    series = clock.series()
    steps = series.end - series.begin
    np.testing.assert_allclose(sum(series.of_phase(name) for name in PHASES), steps, atol=1e-9)
    assert (series.exchange >= 0.004).all()
    assert (series.forward >= 0.002).all()
    np.testing.assert_allclose(series.end - series.arrival, series.exchange + series.update + series.other)
    np.testing.assert_array_equal(series.begin[1:], series.end[:-1])
    assert series.samples.tolist() == [8, 8, 8]
    assert series.units.tolist() == [24, 24, 24]


def test_a_pause_is_no_part_of_any_step() -> None:
    clock = Clock()
    clock.begin()
    clock.end_step(samples=1, units=1, loss=0.0)
    time.sleep(0.05)
    clock.begin()
    clock.end_step(samples=1, units=1, loss=0.0)
    series = clock.series()
    assert series.begin[1] - series.end[0] >= 0.05
    assert sum(series.of_phase(name)[1] for name in PHASES) < 0.05


def test_the_clock_knows_what_is_being_done_now() -> None:
    clock = Clock()
    clock.begin()
    running = [clock.running]
    for phase in PHASES[:-1]:
        clock.mark(phase)
        running.append(clock.running)
    clock.end_step(samples=1, units=1, loss=0.0)
    assert running == list(PHASES)
    assert clock.running == "input"


def test_a_clock_without_steps_has_empty_series() -> None:
    assert {len(values) for values in Clock().series().arrays().values()} == {0}


def test_the_way_of_parameters_back_from_servers_is_exchange_though_it_happens_while_updating() -> None:
    told = Told()
    clock = Clock(told)
    clock.begin()
    clock.buckets.spend("exchange", 0.02)
    clock.buckets.spend("held", 0.005)
    step(clock, told, update=0.03)
    step(clock, told, update=0.03)  # what was said of one step is not said of the next
    series = clock.series()
    np.testing.assert_allclose(series.exchange, [0.04, 0.02])
    np.testing.assert_allclose(series.update, [0.01, 0.03])
    np.testing.assert_allclose(series.held, [0.005, 0.0])


def test_processor_time_is_counted_step_by_step() -> None:
    clock = Clock()
    clock.begin()
    until = time.process_time() + 0.03
    while time.process_time() < until:
        pass
    clock.end_step(samples=1, units=1, loss=0.0)
    time.sleep(0.03)
    clock.end_step(samples=1, units=1, loss=0.0)
    busy, idle = clock.series().cpu
    assert busy >= 0.03
    assert idle < 0.02


def test_of_short_steps_some_are_asked_for_processor_time_and_the_steps_between_share_it() -> None:
    told = Told()
    clock = Clock(told)
    clock.begin()
    begun = time.process_time()
    for _ in range(8):
        until = time.process_time() + 0.002
        while time.process_time() < until:
            pass
        step(clock, told, 0.001)
    used = time.process_time() - begun
    series = clock.series()
    asked = [0, 4]  # one of four at first
    assert np.flatnonzero(np.isfinite(series.queued)).tolist() == asked
    assert np.isnan(series.cpu).tolist() == [False] * 5 + [True] * 3
    assert len(set(series.cpu[1:5])) == 1
    assert 0.002 <= series.cpu[1] < used / 5


def test_the_pace_of_steps_is_told_while_training_without_pauses() -> None:
    told = Told()
    clock = Clock(told)
    clock.begin()
    step(clock, told, 0.25)
    told.time += 7
    clock.begin()
    clock.begin()
    step(clock, told, 0.5)
    step(clock, told, 1.0)
    np.testing.assert_allclose(clock.paces(since=0), [(0.25, 1), (0.5, 1), (1.0, 1)])
    np.testing.assert_allclose(clock.paces(since=2), [(1.0, 1)])
    assert clock.paces(since=3) == []


def reports(clock: Clock, told: Told, buckets: int) -> None:
    for bucket in range(buckets):
        told.time += 0.001
        clock.buckets.ready(bucket, 10 * (bucket + 1))
        clock.buckets.start(bucket)
    for bucket in range(buckets):
        told.time += 0.002
        clock.buckets.end(bucket)


@pytest.mark.parametrize(("seconds", "watched"), [(0.1, range(1, 20)), (0.001, (4,))], ids=["long", "short"])
def test_buckets_are_watched_in_every_long_step_and_in_some_short_ones(seconds: float, watched: Sequence[int]) -> None:
    told = Told()
    clock = Clock(told)
    clock.begin()
    for _ in range(20):
        reports(clock, told, buckets=2)
        told.time -= 0.006
        step(clock, told, seconds)
    series = clock.series()
    assert sorted(set(series.bucket_step)) == list(watched)
    assert series.bucket_bytes.tolist() == [10, 20] * len(watched)
    np.testing.assert_allclose(series.bucket_start, series.bucket_ready)
    np.testing.assert_allclose((series.bucket_end - series.bucket_start).reshape(-1, 2)[:, 0], 0.003)


def test_a_bucket_in_pieces_ends_with_its_last_one_and_one_that_never_ended_is_left_out() -> None:
    told = Told()
    clock = Clock(told)
    clock.begin()
    step(clock, told)
    clock.buckets.ready(0, 8)
    clock.buckets.start(0)
    clock.buckets.end(0)
    told.time += 0.5
    clock.buckets.end(0)
    clock.buckets.ready(1, 8)
    clock.buckets.start(1)
    step(clock, told)
    series = clock.series()
    assert series.bucket_index.tolist() == [0]
    assert series.bucket_end - series.bucket_ready == pytest.approx(0.5)


def test_a_long_run_keeps_a_bounded_number_of_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.workers.timing.buckets._MOST_ROWS", 40)
    told = Told()
    clock = Clock(told)
    clock.begin()
    for _ in range(400):
        reports(clock, told, buckets=2)
        step(clock, told)
    steps = clock.series().bucket_step
    assert 20 <= len(steps) <= 42
    assert steps.max() > 350  # not only the beginning
    assert len(set(np.diff(np.unique(steps)))) == 1


def test_when_each_gradient_was_ready_is_sampled_and_hooks_do_not_stay() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    clock = Clock(gradients=GradientTimes(list(model.parameters()), Clock()._ticks))
    clock.begin()
    for _ in range(6):
        clock.mark("input")
        loss = model(torch.ones(2, 4)).sum()
        clock.mark("forward")
        loss.backward()
        clock.mark("backward")
        hooks = [bool(p._post_accumulate_grad_hooks) for p in model.parameters()]
        clock.end_step(samples=2, units=2, loss=0.0)
        assert all(hooks) == any(hooks) == (clock._steps - 1 == 4)
    series = clock.series()
    assert series.gradient_step.tolist() == [4]
    (ready,) = series.gradient_ready
    assert (ready > 0).all()
    assert ready[2:].max() < ready[:2].min()  # the last layer's come first
    assert ready.max() <= series.backward[4]


def test_on_a_gpu_moments_are_events_that_are_read_a_step_later() -> None:
    device = Told()
    events: list[FakeEvent] = []

    def event() -> FakeEvent:
        events.append(FakeEvent(device))
        return events[-1]

    clock = Clock(DeviceTicks(event))
    clock.begin()
    begun = time.perf_counter()
    step(clock, device)
    assert not any(event.passed for event in events[1:])  # nothing waits for the device
    for _ in range(50_000 // 100):
        step(clock, device, 100.0)
    series = clock.series()
    steps = series.end - series.begin
    np.testing.assert_allclose(steps[1:], 100.0, rtol=1e-6)  # as exact at the end of a long run as at its beginning
    np.testing.assert_allclose(sum(series.of_phase(name) for name in PHASES), steps, rtol=1e-6)
    assert series.begin[0] == pytest.approx(begun, abs=0.1)


def test_a_phase_of_many_micro_batches_is_their_sum() -> None:
    told = Told()
    clock = Clock(told)
    clock.begin()
    for mark in ("input", *["forward", "backward"] * 3, "exchange", "update"):
        told.time += 1
        clock.mark(mark)  # type: ignore[arg-type]
    clock.end_step(samples=1, units=1, loss=0.0)
    series = clock.series()
    durations = [series.forward, series.backward]
    since_begin = [series.backward_begin - series.begin, series.arrival - series.begin]
    assert [float(value.item()) for value in durations] == [3, 3]
    assert [float(value.item()) for value in since_begin] == [6, 7]


def test_time_ready_to_run_without_a_core_is_told_from_time_asleep() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # inherits the one core
    try:
        clock = Clock()
        clock.begin()
        for work, seconds in ((spin, 0.5), (time.sleep, 0.3)):
            work(seconds)
            clock.mark("backward")
            clock.end_step(samples=1, units=1, loss=0.0)
    finally:
        rival.kill()
        rival.wait()
        os.sched_setaffinity(0, before)
    starved, asleep = clock.series().queued
    assert starved > 0.1
    assert asleep < 0.1


def test_cpu_time_is_assigned_to_the_phase_that_used_it() -> None:
    clock = Clock()
    clock.begin()
    time.sleep(0.1)
    clock.mark("input")
    compute(0.1)
    clock.mark("forward")
    for phase in ("backward", "exchange", "update"):
        clock.mark(phase)
    clock.end_step(samples=1, units=1, loss=0.0)
    ((asleep, busy, *others),) = clock.series().thread_cpu
    assert busy >= 0.1
    assert asleep < 0.05
    assert max(others) < 0.05


def test_waiting_for_an_agreement_is_taken_out_of_the_time_between_the_phases() -> None:
    told = Told()
    clock = Clock(ticks=told)
    clock.begin()
    for phase in ("input", "forward", "backward", "exchange", "update"):
        told.time += 1
        clock.mark(phase)
    told.time += 5
    clock.agreed(3)
    clock.end_step(samples=1, units=1, loss=0.0)
    series = clock.series()
    assert (series.agreed.item(), series.other.item()) == (3, 2)


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass

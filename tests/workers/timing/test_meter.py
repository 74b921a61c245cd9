"""How busy cores are: by whom, and only while training goes on."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from paceline.workers.report import CoreUse
from paceline.workers.timing.meter import CoreMeter, GpuMeter, NoMeter, meter_for

CORE = min(os.sched_getaffinity(0))


def spin(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@pytest.fixture
def pinned() -> object:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORE})
    yield
    os.sched_setaffinity(0, before)


def test_a_busy_core_is_seen_and_a_pause_does_not_count(pinned: None) -> None:
    meter = CoreMeter([CORE])
    meter.resume()
    spin(0.3)
    meter.pause()
    time.sleep(0.3)
    busy = meter.use().busy_percent
    assert busy is not None
    assert busy > 80


def test_what_children_do_is_told_apart(pinned: None) -> None:
    ended = "import time; t = time.perf_counter()\nwhile time.perf_counter() - t < 30: pass"
    child = subprocess.Popen([sys.executable, "-c", ended])
    try:
        meter = CoreMeter([CORE])
        time.sleep(0.2)
        meter.resume()
        time.sleep(0.5)
        meter.pause()
        loaders = meter.use().loader_percent
    finally:
        child.kill()
        child.wait()
    assert loaders is not None
    assert loaders > 15  # others may want the core, too


def test_a_core_is_busy_with_guests_once_and_with_what_other_machines_took_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Times(NamedTuple):
        user: float
        idle: float
        steal: float
        guest: float = 0.0  # contained in user

    times = iter([Times(100.0, 50.0, 5.0), Times(100.04, 50.03, 5.03, guest=0.02)])
    clock = SimpleNamespace(perf_counter=iter([7.0, 7.1]).__next__)
    monkeypatch.setattr("paceline.workers.timing.meter.psutil.cpu_times", lambda percpu: [next(times)])
    monkeypatch.setattr("paceline.workers.timing.meter.time", clock)
    meter = CoreMeter([0])
    meter.resume()
    meter.pause()
    use = meter.use()
    assert use.busy_percent == pytest.approx(70)
    assert use.stolen_percent == pytest.approx(30)


def test_nothing_measured_is_none_and_never_zero() -> None:
    assert CoreMeter([CORE]).use() == CoreUse()  # all of it is None
    blind = CoreMeter([10_000])
    blind.resume()
    blind.pause()
    assert blind.use().busy_percent is None
    assert NoMeter().use().busy_percent is None


def test_a_gpu_is_asked_only_while_training_goes_on() -> None:
    readings = iter([*[50.0, 70.0] * 1000])
    asked: list[float] = []

    def read() -> float:
        asked.append(next(readings))
        return asked[-1]

    meter = GpuMeter(read, every_seconds=0.01)
    time.sleep(0.05)
    assert not asked
    meter.resume()
    time.sleep(0.1)
    meter.pause()
    time.sleep(0.03)
    known = len(asked)
    time.sleep(0.05)
    assert len(asked) == known > 1
    busy = meter.use().busy_percent
    assert busy is not None
    assert 50 <= busy <= 70


def test_a_worker_without_cores_of_its_own_is_measured_on_those_it_may_use() -> None:
    meter = meter_for((), None)
    meter.resume()
    spin(0.05)
    meter.pause()
    assert meter.use().busy_percent is not None

"""A result that cannot be relied on is told in words, with the remedy; a sound one is left in peace."""

import re

import numpy as np
import pytest
from measure.pace import steady, warming_up, worker

from paceline.measure.series import Series
from paceline.measure.steadiness import stolen_cores
from paceline.measure.summary import summarise


def warnings(step_seconds: Series) -> list[str]:
    return summarise([worker(step_seconds)], synchronous=True).warnings


def noise(steps: int, seed: int = 0) -> Series:
    return steady(np.random.default_rng(seed), 1, steps, 0.0, "normal").reshape(steps)


@pytest.mark.parametrize(("steps", "correlation"), [(200, 0.0), (300, 0.5), (2000, 0.5), (2000, 0.8)])
def test_a_sound_run_is_not_warned_of(steps: int, correlation: float) -> None:
    series = steady(np.random.default_rng(1), 200, steps, correlation, "normal") + warming_up(steps, 5)
    cried = [warning for seconds in series for warning in warnings(seconds)]
    assert len(cried) <= 0.03 * 200, cried


def test_too_few_steps_are_told_with_the_number_that_would_do() -> None:
    (warning,) = warnings(np.ones(4))
    assert warning == "The rate is not known: 3 steps timed; 60 needed. Run longer, or take turns (--repeats)."


def test_cores_that_other_machines_had_are_told_with_the_share() -> None:
    assert stolen_cores(None) == stolen_cores(1.0) == []
    (warning,) = stolen_cores(12.3)
    assert warning.startswith("Other virtual machines on this host had 12 % of the cores' time")


def test_a_drift_is_told_with_its_size_and_its_direction() -> None:
    (warning,) = warnings(noise(200) * np.linspace(1.0, 1.2, 200))
    assert re.match(r"The pace drifted: the last third of the run was \d+% slower than the first\. Run", warning)
    told = warnings(noise(400) * np.repeat([1.0, 0.8], [250, 150]))
    assert re.match(r"The pace drifted: the last third of the run was 2\d% faster than the first", told[0])


def test_two_levels_of_pace_are_told_from_single_slow_steps() -> None:
    busy = np.isin(np.arange(400) // 50, (1, 2, 5))  # now and then another program runs for a while
    told = warnings(noise(401) * np.concatenate([[1.0], np.where(busy, 1.3, 1.0)]))
    assert told[0].startswith("The pace had two levels, 26% apart")
    assert "of 20 windows at the slow one" in told[0]
    (singles,) = steady(np.random.default_rng(3), 1, 300, 0.0, "slow steps")
    assert not any("two levels" in warning for warning in warnings(singles))


def test_rare_slow_steps_are_counted_when_they_make_the_median_flatter() -> None:
    seconds = np.ones(1000)
    seconds[500:510] = 5.0  # ten in a thousand, four seconds lost each
    (warning,) = warnings(seconds)
    assert warning.startswith("The mean rate is 4% below the median of the windows: 1.0%")


def test_a_wide_interval_is_told_with_how_much_longer_to_run() -> None:
    told = warnings(np.random.default_rng(4).lognormal(0.0, 0.6, 120))
    assert told[0].startswith("The interval is wide, up to ")
    assert "the steps vary a lot. Run about " in told[0]
    (alike,) = steady(np.random.default_rng(5), 1, 200, 0.98, "long-tailed")
    assert any("the pace changes slowly" in w or "drifted" in w for w in warnings(alike))


def test_a_warm_up_that_takes_most_of_the_run_is_told() -> None:
    (warning,) = warnings(noise(200) + warming_up(200, 50))
    assert warning.startswith("Warm-up took ")
    assert " of 200 steps and may not have been over. Run at least 4" in warning or "Run at least 3" in warning
    assert warnings(noise(2000) + warming_up(2000, 50)) == []


def test_what_is_wrong_is_named_once() -> None:
    jump = noise(400) * np.repeat([1.0, 1.5], [250, 150])
    assert len([warning for warning in warnings(jump) if "mean rate" not in warning]) == 1

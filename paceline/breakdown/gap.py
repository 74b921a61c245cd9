"""The gap between a setting's step and the ideal one, divided into components that add up to it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from paceline.breakdown.setting import MeasuredSetting
from paceline.numbers import whole_percents
from paceline.record_parts import PhaseName

COMPONENTS: Mapping[str, tuple[PhaseName, ...]] = {
    "input": ("input",),
    "compute": ("forward", "backward"),
    "exchange": ("exchange",),
    "wait": ("wait",),
    "update": ("update",),
    "servers": (),
    "other": ("other",),
}
"""Each component and the phases that it compares with the baseline's."""

LABELS: Mapping[str, str] = {
    "input": "input",
    "compute": "slower compute",
    "exchange": "exposed communication",
    "wait": "waiting for the slowest worker",
    "update": "update",
    "servers": "devices that only host servers",
    "other": "other",
}


@dataclass(frozen=True)
class Gap:
    """T − T_ideal, in seconds per step."""

    step_seconds: float
    ideal_seconds: float
    worker_scale: float
    """s_w: how many steps of the baseline one device's workers complete in one step."""

    components: Mapping[str, float]
    """Seconds; negative where a phase took less than the ideal."""

    @property
    def seconds(self) -> float:
        """How much longer than ideal a step takes."""
        return self.step_seconds - self.ideal_seconds

    @property
    def efficiency(self) -> float:
        """T_ideal ÷ T."""
        return self.ideal_seconds / self.step_seconds

    @property
    def shares_percent(self) -> dict[str, int]:
        """Shares of the gap in whole percents; they add up to 100, and negative components have negative shares."""
        return whole_percents(self.components)

    @property
    def gained_seconds(self) -> float:
        """The sum of the negative components: losses − gains = gap."""
        return -math.fsum(part for part in self.components.values() if part < 0)


def worker_scale(setting: MeasuredSetting, baseline: MeasuredSetting) -> float:
    """s_w = samples per step and device of workers ÷ samples per step of the baseline."""
    return setting.samples_per_step / setting.worker_devices / baseline.samples_per_step


def gap(setting: MeasuredSetting, baseline: MeasuredSetting) -> Gap:
    """component = phase − s_w · baseline's phase; servers = (s_w − s) · T_1, s = s_w · worker devices ÷ devices."""
    scale = worker_scale(setting, baseline)
    ideal = scale * setting.worker_devices / setting.devices * baseline.step_seconds
    components = {
        name: math.fsum(setting.phases.of(p) - scale * baseline.phases.of(p) for p in phases)
        for name, phases in COMPONENTS.items()
    }
    components["servers"] = scale * baseline.step_seconds - ideal
    return Gap(setting.step_seconds, ideal, scale, components)

"""Explanations as plain data, for programs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.breakdown.setting import MeasuredSetting, Worker
from paceline.explain.cause import Cause
from paceline.explain.verdict import Account, Explanation
from paceline.explain.wall import wall_seconds


@dataclass(frozen=True)
class _CauseData:
    name: str
    seconds: float
    rank: int | None
    sentence: str
    evidence: tuple[str, ...]
    remedy: str

    @classmethod
    def of(cls, cause: Cause) -> "_CauseData":
        sentence = f"{cause.headline}: {cause.sentence}."
        return cls(cause.name, cause.seconds, cause.rank, sentence, cause.evidence, cause.remedy)


@dataclass(frozen=True)
class _EfficiencyData:
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class _GapData:
    seconds: float
    step_seconds: float
    ideal_seconds: float
    efficiency: _EfficiencyData
    components: Mapping[str, float]
    shares_percent: Mapping[str, int] | None
    """None where the gap is within noise."""

    @classmethod
    def of(cls, explanation: Explanation) -> "_GapData | None":
        gap, figure = explanation.case.gap, explanation.efficiency
        if gap is None or figure is None:
            return None
        efficiency = _EfficiencyData(figure.value, figure.low, figure.high)
        shares = gap.shares_percent if explanation.gap else None
        return cls(gap.seconds, gap.step_seconds, gap.ideal_seconds, efficiency, dict(gap.components), shares)


@dataclass(frozen=True, kw_only=True)
class _WorkerData:
    rank: int
    device: str
    phases: Mapping[str, float]
    late_seconds: float | None
    last_share: float | None
    cpu_seconds_per_step: float | None
    utilisation_percent: float | None
    loader_utilisation_percent: float | None

    @classmethod
    def of(cls, worker: Worker) -> "_WorkerData":
        return cls(
            rank=worker.rank,
            device=worker.device,
            phases=dict(worker.phases),
            late_seconds=worker.late_seconds,
            last_share=worker.last_share,
            cpu_seconds_per_step=worker.cpu_seconds,
            utilisation_percent=worker.utilisation_percent,
            loader_utilisation_percent=worker.loader_utilisation_percent,
        )


@dataclass(frozen=True, kw_only=True)
class _ExplanationData:
    setting: str
    folders: tuple[str, ...]
    verdict: str
    evidence: tuple[str, ...]
    next: str
    causes: tuple[_CauseData, ...]
    gap: _GapData | None
    step_seconds: float
    phases: Mapping[str, float]
    hidden_exchange_seconds: float | None
    per_worker: tuple[_WorkerData, ...]
    wall_seconds: Mapping[str, float]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, explanation: Explanation, notes: tuple[str, ...] = ()) -> "_ExplanationData":
        setting: MeasuredSetting = explanation.case.setting
        return cls(
            setting=setting.label,
            folders=tuple(str(run.folder) for run in setting.runs),
            verdict=explanation.verdict,
            evidence=explanation.evidence,
            next=explanation.remedy,
            causes=tuple(map(_CauseData.of, explanation.causes)),
            gap=_GapData.of(explanation),
            step_seconds=setting.step_seconds,
            phases=dict(setting.phases),
            hidden_exchange_seconds=setting.hidden_seconds,
            per_worker=tuple(map(_WorkerData.of, setting.workers)),
            wall_seconds=wall_seconds(setting),
            notes=(*notes, *explanation.notes),
        )


@dataclass(frozen=True)
class _AccountData:
    verdict: str
    next: str
    settings: tuple[_ExplanationData, ...]
    notes: tuple[str, ...]


def as_data(account: Account) -> dict[str, Any]:
    """Return one object for one setting; for several settings, a common verdict and one object for each."""
    if len(account.explanations) == 1:
        return dataclasses.asdict(_ExplanationData.of(account.explanations[0], account.notes))
    settings = tuple(map(_ExplanationData.of, account.explanations))
    return dataclasses.asdict(_AccountData(account.verdict, account.worst.remedy, settings, account.notes))

"""Explanations as plain data, for programs."""

from typing import Any

from paceline.breakdown.setting import MeasuredSetting
from paceline.explain.verdict import Account, Explanation
from paceline.explain.wall import wall_seconds


def as_data(account: Account) -> dict[str, Any]:
    """One setting as one object; several with a common verdict and one object each."""
    if len(account.explanations) == 1:
        data = _explanation(account.explanations[0])
        return {**data, "notes": [*account.notes, *data["notes"]]}
    return {
        "verdict": account.verdict,
        "next": account.worst.remedy,
        "settings": [_explanation(explanation) for explanation in account.explanations],
        "notes": list(account.notes),
    }


def _explanation(explanation: Explanation) -> dict[str, Any]:
    setting = explanation.case.setting
    return {
        "setting": setting.label,
        "folders": [str(run.folder) for run in setting.runs],
        "verdict": explanation.verdict,
        "evidence": list(explanation.evidence),
        "next": explanation.remedy,
        "causes": [
            {
                "name": cause.name,
                "seconds": cause.seconds,
                "rank": cause.rank,
                "sentence": f"{cause.headline}: {cause.sentence}.",
                "evidence": list(cause.evidence),
                "remedy": cause.remedy,
            }
            for cause in explanation.causes
        ],
        "gap": _gap(explanation),
        "step_seconds": setting.step_seconds,
        "phases": dict(setting.phases),
        "hidden_exchange_seconds": setting.hidden_seconds,
        "per_worker": _per_worker(setting),
        "wall_seconds": wall_seconds(setting),
        "notes": list(explanation.notes),
    }


def _gap(explanation: Explanation) -> dict[str, Any] | None:
    """Components are there with any baseline; shares only where the gap is more than noise."""
    gap, efficiency = explanation.case.gap, explanation.efficiency
    if gap is None:
        return None
    return {
        "seconds": gap.seconds,
        "step_seconds": gap.step_seconds,
        "ideal_seconds": gap.ideal_seconds,
        "efficiency": {
            "value": efficiency.value if efficiency else gap.efficiency,
            "low": efficiency.low if efficiency else None,
            "high": efficiency.high if efficiency else None,
        },
        "components": dict(gap.components),
        "shares_percent": gap.shares_percent if explanation.gap else None,
    }


def _per_worker(setting: MeasuredSetting) -> list[dict[str, Any]]:
    return [
        {
            "rank": worker.rank,
            "device": worker.device,
            "phases": dict(worker.phases),
            "late_seconds": worker.late_seconds,
            "last_share": worker.last_share,
            "cpu_seconds_per_step": worker.cpu_seconds,
            "utilisation_percent": worker.utilisation_percent,
            "loader_utilisation_percent": worker.loader_utilisation_percent,
        }
        for worker in setting.workers
    ]

"""The audit of a table, published or our own: every check, in the order in which a reader would ask."""

from collections.abc import Mapping
from typing import get_args

from paceline.references import arithmetic, comparison, procedure, regular
from paceline.references.base import Reference, Row
from paceline.references.findings import Check, Finding, Severity

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
CHECKS: Mapping[str, Check] = {
    "speed-up": arithmetic.speedups,
    "efficiency": arithmetic.efficiencies,
    "possible": arithmetic.possible,
    "regular": regular.regular,
    "devices": arithmetic.devices,
    "samples": arithmetic.samples,
    "rate": arithmetic.rates,
    "time": arithmetic.times,
    "machine": comparison.machines,
    "setting": comparison.settings,
    "baseline": comparison.baseline,
    "ideal": comparison.ideal,
    "servers": comparison.servers,
    "bandwidth": comparison.bandwidth,
    "window": procedure.window,
    "intervals": procedure.intervals,
    "every worker": procedure.every_worker,
    "last batch": procedure.last_batch,
    "sum": procedure.summed_gradients,
    "compile": procedure.compiled,
    "independent": procedure.independent,
    "loss": comparison.losses,
    "remark": procedure.remarks,
}


def audit(reference: Reference) -> list[Finding]:
    """All findings, faults first, then in the order of the checks; a finding about several series appears once."""
    labels: dict[tuple[str, Severity, str], dict[str, None]] = {}
    rows: dict[tuple[str, Severity, str], list[Row]] = {}
    for name, check in CHECKS.items():
        for series in reference.series:
            for remark in check(series, reference):
                key = (name, remark.severity, remark.sentence)
                labels.setdefault(key, {})[series.label] = None
                rows.setdefault(key, []).extend(remark.rows)
    findings = [Finding(key[0], key[1], tuple(labels[key]), key[2], tuple(rows[key])) for key in labels]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))

"""The audit of a table, published or our own: every check, in the order in which a reader would ask."""

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from paceline.references import arithmetic, comparison, procedure
from paceline.references.base import Reference
from paceline.references.findings import Check, Finding, Severity

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
CHECKS: Mapping[str, Check] = {
    "speed-up": arithmetic.speedups,
    "efficiency": arithmetic.efficiencies,
    "possible": arithmetic.possible,
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
    findings: dict[tuple[str, Severity, str], Finding] = {}
    for name, check in CHECKS.items():
        for series in reference.series:
            for remark in check(series, reference):
                key = (name, remark.severity, remark.sentence)
                earlier = findings.get(key, Finding(*key[:2], (), remark.sentence, ()))
                labels = tuple(dict.fromkeys((*earlier.series, series.label)))
                findings[key] = replace(earlier, series=labels, rows=(*earlier.rows, *remark.rows))
    return sorted(findings.values(), key=lambda finding: SEVERITIES.index(finding.severity))

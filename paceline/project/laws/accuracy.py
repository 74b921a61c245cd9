"""The page on how well projections hold: errors, bias and coverage of every collection, in Markdown."""

from collections.abc import Iterator, Sequence

import numpy as np

from paceline.project.laws.base import NODE_COST, NODE_COSTS
from paceline.project.laws.baselines import NAMES
from paceline.project.laws.check import OURS, Checked, coverage, summary
from paceline.project.laws.heldout import ONE_ROW, RECENT
from paceline.project.laws.left_out import LeftOut


def page(checked: Sequence[Checked], left_out: Sequence[LeftOut] = ()) -> str:
    """The whole comparison in Markdown."""
    recent, one_row = ([one for one in checked if one.case.source == source] for source in (RECENT, ONE_ROW))
    others = [one for one in checked if one.case.source not in (RECENT, ONE_ROW)]
    tables = [one for one in others if not one.case.of_steps]
    steps = [one for one in others if one.case.of_steps]
    lines = [
        "# How well it projects",
        "",
        "Written by `paceline references check --projection --page docs/how-well-it-projects.md`.",
        "",
        "For every table that comes with Paceline, the largest worker count is hidden and projected from the",
        "smaller ones (counts that at least double, as in 1, 2, 4 → 8). Errors are of throughput. The laws' priors",
        "are the same for all tables, but were chosen with these in view: expect somewhat larger errors on others.",
        "",
        *(_totals(tables) if tables else ()),
    ]
    if recent:
        lines += ["", *_recent(recent, left_out), "", _pooled([*tables, *recent])]
    if steps:
        lines += [
            "",
            "Step times measured for Pollux (OSDI '21) on 1–64 GPUs in up to 16 nodes at many batches. All rows above",
            "the limit are hidden. Errors are of step time. Baselines know only workers, so batches are fitted apart.",
            "",
            *_totals(steps),
            "",
            *_of_floors(steps),
        ]
    if one_row:
        lines += ["", *_by_count(one_row)]
    lines += ["", "## Every table", "", *_each([*others, *recent]), ""]
    return "\n".join(lines)


def _recent(checked: Sequence[Checked], left_out: Sequence[LeftOut]) -> list[str]:
    """A line per cluster and workload; and what the same tables give where their cluster had no say in the priors."""
    lines = [
        "Tables of recent clusters, with `nodes`, the largest count hidden. Most show one node only: what a second one",
        f"costs comes from the prior. Its median, {NODE_COST:g} of a step, was chosen with these tables in view, like",
        "the laws. *Left out* chooses without the cluster that is projected: every other cluster and workload prefers",
        f"one of {_some(NODE_COSTS)}, and the geometric mean of these and of {NODE_COST:g} is in brackets.",
        "",
        "| cluster | workload | rows | mean error | mean, signed | 90th percentile | linear | in 80 % band |",
        "|---|---|---|---|---|---|---|---|",
        *_kinds(checked),
    ]
    return [*lines, *(line for one in left_out for line in _kinds(one.checked, f", left out ({one.node_cost:.2g})"))]


def _kinds(checked: Sequence[Checked], remark: str = "") -> Iterator[str]:
    kinds = dict.fromkeys((one.case.cluster, one.case.workload) for one in checked)
    for cluster, workload in kinds:
        same = [one for one in checked if (one.case.cluster, one.case.workload) == (cluster, workload)]
        total, linear = (summary(one.errors[name] for one in same) for name in (OURS, "linear"))
        signed = float(np.concatenate([one.signed for one in same]).mean())
        held = coverage(one.in80 for one in same)
        yield (
            f"| {cluster}{remark} | {workload} | {total.rows} | {total.mean:.1%} | {signed:+.1%} | {total.p90:.1%} "
            f"| {linear.mean:.1%} | {held:.0%} |"
        )


def _some(costs: Sequence[float]) -> str:
    return ", ".join(f"{cost:g}" for cost in costs)


def _pooled(checked: Sequence[Checked]) -> str:
    held, below = (np.concatenate([getattr(one, name) for one in checked]) for name in ("in80", "below80"))
    above = len(held) - held.sum() - below.sum()
    return (
        f"Over all {len(held)} hidden rows of tables together, the 80 % band contains {held.mean():.0%}: "
        f"{below.sum():.0f} rows lie below it and {above:.0f} above."
    )


def _by_count(checked: Sequence[Checked]) -> list[str]:
    lines = [
        "The same models, a table for each batch, with 1, 2 and 4 workers on one node and a single row on two nodes (8",
        "workers). Hidden are 16, 32 and 64 workers on nodes of 4.",
        "",
        "| workers | rows | mean error | in 80 % band | below it | above it |",
        "|---|---|---|---|---|---|",
    ]
    columns = [np.concatenate([one.case.hidden.at.workers for one in checked])]
    columns += [np.concatenate([getattr(one, name) for one in checked]) for name in ("in80", "below80")]
    errors = np.concatenate([one.errors[OURS] for one in checked])
    workers, held, below = columns
    for count in np.unique(workers):
        here = workers == count
        shares = (held[here].mean(), below[here].mean(), 1 - held[here].mean() - below[here].mean())
        lines.append(
            f"| {count:.0f} | {here.sum()} | {errors[here].mean():.1%} | "
            + " | ".join(f"{abs(share):.0%}" for share in shares)
            + " |"
        )
    return lines


def _totals(checked: Sequence[Checked]) -> list[str]:
    lines = ["| method | median error | mean | 90th percentile | rows |", "|---|---|---|---|---|"]
    for name in (OURS, *NAMES):
        total = summary(one.errors[name] for one in checked)
        lines.append(f"| {name} | {total.median:.1%} | {total.mean:.1%} | {total.p90:.1%} | {total.rows} |")
    held80, held95 = (coverage(getattr(one, name) for one in checked) for name in ("in80", "in95"))
    return [*lines, "", f"The 80 % band contains {held80:.0%} of the hidden rows, the 95 % band {held95:.0%}."]


def _of_floors(checked: Sequence[Checked]) -> list[str]:
    floors = [one.floor for one in checked if one.floor is not None]
    if not floors:
        return []
    total = summary(floors)
    return [
        f"The floor is {total.mean:.1%} here (90th percentile {total.p90:.1%}). It is the error that remains when each",
        "hidden pair of workers and nodes is shifted by its own median deviation, which only the hidden rows show.",
        "It is scatter from batch to batch.",
    ]


def _each(checked: Sequence[Checked]) -> list[str]:
    """A line per case: mean errors, and for our method also the 90th percentile, the floor and the coverage."""
    lines = ["| table | series | hidden | " + " | ".join((OURS, *NAMES)) + " | 90th | floor, 90th | in 80 % band |"]
    lines.append("|---" * (len(NAMES) + 7) + "|")
    for one in checked:
        counts = sorted({int(count) for count in one.case.hidden.at.workers})
        hidden = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        means = " | ".join(f"{one.errors[name].mean():.1%}" for name in (OURS, *NAMES))
        p90 = f"{summary([one.errors[OURS]]).p90:.1%}" if len(one.in80) > 1 else ""
        floor = "" if one.floor is None else f"{one.floor.mean():.1%}, {summary([one.floor]).p90:.1%}"
        held = f"{one.in80.mean():.0%}" if len(one.in80) > 1 else ("yes" if one.in80[0] else "no")
        lines.append(f"| {one.case.source} | {one.case.label} | {hidden} | {means} | {p90} | {floor} | {held} |")
    return lines

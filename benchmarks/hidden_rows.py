"""Hidden rows of every collection projected from the others: error, bias, 90th percentile and coverage, in a minute.

    PACELINE_DATA=… python benchmarks/hidden_rows.py [--node-cost 0.006] [--all]

Run it before and after a change of laws, priors or bands. `--all` adds Pollux's whole tables, which take longer. The
page docs/how-well-it-projects.md also has the baselines and every cluster left out in turn.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from paceline.project.laws.base import NODE_COST
from paceline.project.laws.check import Checked, check
from paceline.project.laws.heldout import ONE_ROW, HeldOutTable, cases


def group(case: HeldOutTable) -> str:
    """The collection of a table; whole tables of Pollux stand for themselves."""
    if case.cluster is not None:
        return f"{case.cluster}, {case.workload}"
    if case.source == ONE_ROW:
        return ONE_ROW
    return f"pollux, {case.label}" if case.of_steps else "published tables"


def line(name: str, checked: Sequence[Checked]) -> str:
    """Figures over all hidden rows of some tables, of throughput."""
    columns = ("signed", "in80", "in95", "below80")
    signed, in80, in95, below = (np.concatenate([getattr(one, column) for one in checked]) for column in columns)
    errors = np.abs(signed)
    above = 1 - in80.mean() - below.mean()
    return (
        f"| {name} | {len(signed)} | {errors.mean():.1%} | {signed.mean():+.1%} | {np.quantile(errors, 0.9):.1%} | "
        f"{in80.mean():.0%} | {in95.mean():.0%} | {below.mean():.0%} | {abs(above):.0%} |"
    )


def main() -> None:
    """A line per collection, as soon as it is done, and one over all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node-cost", type=float, default=NODE_COST, help="believed cost of a second node")
    parser.add_argument("--all", action="store_true", help="also Pollux's whole tables")
    arguments = parser.parse_args()
    groups: dict[str, list[HeldOutTable]] = {}
    for case in cases():
        groups.setdefault(group(case), []).append(case)
    print("| collection | rows | mean | signed | 90th | in 80 % | in 95 % | below 80 % | above |")
    print("|---|---|---|---|---|---|---|---|---|")
    together: list[Checked] = []
    for name, members in groups.items():
        if name.startswith("pollux") and not arguments.all:
            continue
        checked = [check(case, arguments.node_cost) for case in members]
        print(line(name, checked), flush=True)
        together += [one for one in checked if not one.case.of_steps]
    print(line("all tables", together))


if __name__ == "__main__":
    main()

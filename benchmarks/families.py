"""How often equal settings are called different, and how many turns a difference takes: simulated studies.

    python benchmarks/families.py [--studies 2000]

No run is made. A study has k settings in n turns, in the order in which `paceline study` runs them. The log rate of
a run is that of its setting, plus the pace of the machine at that moment, plus noise of its own. The pace changes
three times as much as a run does by itself, independently or slowly from run to run (AR(1) with φ = 0.9), and in 2 %
of the runs something else slows the machine down by up to 5 %. Counted is what `paceline` calls faster or slower.
"""

import argparse
import math
from collections.abc import Sequence

import numpy as np

from paceline.measure.families import TurnTable, turns_needed
from paceline.measure.series import Series
from paceline.studies.grid import order_of_turn

FAMILIES = (2, 5, 10, 20)
PACES = {"independent": 0.0, "slowly changing": 0.9}
NOISES = (0.01, 0.02, 0.05)
DIFFERENCE = 0.05

_HICCUP_SHARE, _HICCUP = 0.02, 0.05
_PACE = 3.0


def rates(random: np.random.Generator, settings: int, turns: int, noise: float, correlation: float) -> Series:
    """Log rates of equal settings: a row per setting, a column per turn."""
    runs = settings * turns
    fresh = random.standard_normal(runs) * math.sqrt(1 - correlation**2)
    pace = np.empty(runs)
    pace[0] = random.standard_normal()
    for at in range(1, runs):
        pace[at] = correlation * pace[at - 1] + fresh[at]
    keys = [f"setting {random.integers(2**32)}" for _ in range(settings)]
    logs = np.empty((settings, turns))
    for turn in range(turns):
        logs[order_of_turn(keys, turn), turn] = _PACE * noise * pace[turn * settings : (turn + 1) * settings]
    hiccups = (random.random((settings, turns)) < _HICCUP_SHARE) * _HICCUP * random.random((settings, turns))
    return np.asarray(logs + noise * random.standard_normal((settings, turns)) - hiccups)


def pairs(settings: int) -> int:
    """How many comparisons a family of settings has."""
    return math.comb(settings, 2)


def called_different(table: TurnTable, first: int, second: int) -> bool:
    """Whether the interval of the ratio excludes 1."""
    ratio = table.ratio(first, second)
    return ratio is not None and ratio.excludes(1)


def false_alarms(
    studies: int, settings: int, turns: int, *, correlation: float = 0.0, comparisons: int | None = None
) -> float:
    """In which share of studies of equal settings some setting is called slower or faster than another."""
    random, wrong = np.random.default_rng(settings * 1000 + turns), 0
    for _ in range(studies):
        table = TurnTable(rates(random, settings, turns, 0.01, correlation), comparisons or pairs(settings))
        wrong += any(called_different(table, a, b) for a in range(settings) for b in range(a))
    return wrong / studies


def found(studies: int, settings: int, turns: int, noise: float, difference: float = DIFFERENCE) -> float:
    """In which share of studies a setting that is slower by `difference` is called slower than another."""
    random, right = np.random.default_rng(settings * 1000 + turns), 0
    for _ in range(studies):
        logs = np.array(random.standard_normal((settings, turns)) * noise)
        logs[0] -= math.log1p(difference)
        right += called_different(TurnTable(logs, pairs(settings)), 0, settings - 1)
    return right / studies


def _print_false_alarms(studies: int, turns: Sequence[int]) -> None:
    print(f"Equal settings of which some is called slower or faster, in {studies:,} studies each:")
    print("| the machine's pace | turns | " + " | ".join(f"{k} settings" for k in FAMILIES) + " |")
    print("|---|---:|" + "---:|" * len(FAMILIES))
    for pace, correlation in PACES.items():
        for n in turns:
            shares = (false_alarms(studies, k, n, correlation=correlation) for k in FAMILIES)
            print(f"| {pace} | {n} | " + " | ".join(f"{share:.1%}" for share in shares) + " |", flush=True)


def _print_turns(studies: int) -> None:
    print(f"Turns that find a difference of {DIFFERENCE:.0%} in nine of ten studies (found in simulated studies):")
    print("| noise of a run | " + " | ".join(f"{k} settings" for k in FAMILIES) + " |")
    print("|---:|" + "---:|" * len(FAMILIES))
    for noise in NOISES:
        cells = []
        for k in FAMILIES:
            turns = turns_needed(noise, DIFFERENCE, settings=k)
            assert turns is not None
            cells.append(f"{turns} ({found(studies, k, turns, noise):.0%})")
        print(f"| {noise:.0%} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print both tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies of each kind")
    studies = parser.parse_args().studies
    _print_false_alarms(studies, (3, 5, 10))
    print()
    _print_turns(studies)


if __name__ == "__main__":
    main()

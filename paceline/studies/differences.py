"""Which settings of a study are faster, in words, and what its turns cannot show."""

from collections.abc import Iterator, Mapping, Sequence

from paceline.measure.families import Family
from paceline.measure.ratios import FEW_TURNS, rate_over
from paceline.measure.scaling import Setting
from paceline.numbers import count, percent

_LISTED = 4
"""Of more settings than this, only their number is given."""


def differences(families: Sequence[Family], names: Mapping[int, str]) -> Iterator[str]:
    """A sentence or two for each family; `names` has the name of every setting by the id of its first record."""
    for family in families:
        where = f"Of {count(len(family.settings), 'setting')} with {_workers(family)},"
        table = family.table
        if table.smallest is None or table.noise is None:
            yield f"{where} none can be called faster: that takes two turns. Take {FEW_TURNS} or more (--repeats)."
            continue
        best = max(family.settings, key=lambda setting: rate_over(setting).value)
        verdicts = "; ".join(_verdicts(family, best, names))
        yield f"{where} {verdicts}. {limit(table.turns, table.noise, table.smallest)}"


def limit(turns: int, noise: float, smallest: float) -> str:
    """What these turns cannot show."""
    below = percent(smallest) if smallest < 1 else "2x"
    return (
        f"With {count(turns, 'turn')} at this noise ({percent(noise)} from run to run), a difference below {below} "
        "cannot be shown."
    )


def _workers(family: Family) -> str:
    return count(family.settings[0][0].spec.workers, "worker")


def _verdicts(family: Family, best: Setting, names: Mapping[int, str]) -> Iterator[str]:
    others = [setting for setting in family.settings if setting is not best]
    differences = {names[id(setting[0])]: family.difference(setting, best) for setting in others}
    slower = [f"{name} is {one.verdict}" for name, one in differences.items() if one.seen]
    alike = [name for name, one in differences.items() if not one.seen]
    yield f"{names[id(best[0])]} was the fastest"
    yield from slower if len(slower) <= _LISTED else [f"{len(slower)} others are slower"]
    if alike:
        who = " and ".join(alike) if len(alike) <= _LISTED else f"{len(alike)} others"
        yield f"{who} {'is' if len(alike) == 1 else 'are'} not measurably different from it"

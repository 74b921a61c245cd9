"""Numbers as people read them: `19,520`, never `1.952e+04`; `1 worker`, `2 workers`."""

from collections.abc import Mapping


def significant(value: float, digits: int = 4) -> str:
    """This many digits, and all of those before the decimal point: `19520.4` → `"19,520"`, `23.944` → `"23.94"`."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:,.{digits}g}"


def rate(value: float) -> str:
    """Samples, images or words per second, with four digits."""
    return significant(value)


def number(value: float) -> str:
    """A loss, a count or a setting: integers without a decimal point, others with five digits."""
    return f"{value:,.0f}" if float(value).is_integer() else significant(value, 5)


def ms(seconds: float) -> str:
    """`0.0503` → `"50.3 ms"`."""
    milliseconds = seconds * 1e3
    if abs(milliseconds) < 5e-4:
        return "0 ms"
    return f"{milliseconds:.{0 if abs(milliseconds) >= 1000 else 1 if abs(milliseconds) >= 1 else 3}f} ms"


def percent(share: float) -> str:
    """`0.314` → `"31 %"`; small shares keep a digit."""
    return f"{share * 100:.{0 if abs(share) >= 0.0995 or share == 0 else 1}f} %"


def count(number: int, noun: str) -> str:
    """`2, "worker"` → `"2 workers"`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def whole_percents(parts: Mapping[str, float]) -> dict[str, int]:
    """Shares of the sum in whole percents that add up to exactly 100; parts may be negative.

    All shares are rounded down; the points missing to 100 go to the largest remainders.
    """
    total = sum(parts.values())
    exact = {name: 100 * part / total for name, part in parts.items()}
    whole = {name: int(share // 1) for name, share in exact.items()}
    by_loss = sorted(exact, key=lambda name: whole[name] - exact[name])
    for name in by_loss[: 100 - sum(whole.values())]:
        whole[name] += 1
    return whole

"""Which columns of a user's table are read: by headings, by the user's choice, by what fits where two compete."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paceline.errors import DataError, SpecError
from paceline.grammar import choose
from paceline.references.cells import NOT_GIVEN, read_cell
from paceline.references.headings import FIELDS, Heading, as_field, read_heading

_COUNTS = ("workers", "devices")
_FIGURES = ("throughput", "speedup", "efficiency", "step_seconds", "seconds", "loss", "val_loss")
_SAME = 0.02
"""How far two columns may be from a constant ratio, or figures from what follows from others, to be the same."""


def parse_columns(text: str | None) -> dict[str, str]:
    """`workers=world_size,throughput=img/s` → which heading has which field."""
    chosen: dict[str, str] = {}
    for part in text.split(",") if text is not None else ():
        field, equals, heading = (piece.strip() for piece in part.partition("="))
        if not equals or not heading:
            raise SpecError(
                f"--columns {part!r} is not valid: write FIELD=HEADING, as in workers=gpus,throughput=img/s."
            )
        chosen[choose(field, FIELDS, "column")] = heading
    return chosen


def choose_columns(
    texts: Sequence[str], columns: Sequence[Sequence[str]], chosen: Mapping[str, str], where: str
) -> tuple[list[Heading], list[str]]:
    """The headings, where those that are not read have no field; and notes on choices between two columns."""
    for field, text in chosen.items():
        if text not in texts:
            raise SpecError(f"--columns {field}={text}: {where} has no such heading; it has {', '.join(texts)}.")
    by_choice = {text: field for field, text in chosen.items()}
    headings = [
        as_field(text, by_choice[text]) if text in by_choice else _unless_taken(read_heading(text), chosen)
        for text in texts
    ]
    notes = []
    for field in dict.fromkeys(heading.field for heading in headings if heading.field is not None):
        rivals = [index for index, heading in enumerate(headings) if heading.field == field]
        if len(rivals) > 1:
            kept, why = _decided(headings, columns, rivals, where)
            others = ", ".join(headings[index].text for index in rivals if index != kept)
            notes.append(f"Of the columns that mean {field}, {headings[kept].text} is used, not {others}: {why}.")
            headings = [
                replace(heading, field=None) if index in rivals and index != kept else heading
                for index, heading in enumerate(headings)
            ]
    _require_enough(headings, where)
    return headings, notes


def _unless_taken(heading: Heading, chosen: Mapping[str, str]) -> Heading:
    """A heading, without its field where the user has chosen another column for it."""
    return replace(heading, field=None) if heading.field in chosen else heading


def _decided(
    headings: Sequence[Heading], columns: Sequence[Sequence[str]], rivals: Sequence[int], where: str
) -> tuple[int, str]:
    """The column to use and why; refuses columns that contradict one another where nothing decides between them."""
    read = {index: _numbers(columns[index], headings[index], where) for index in rivals}
    first = rivals[0]
    if all(read[index] == read[first] or columns[index] == columns[first] for index in rivals):
        return first, "they are equal"
    field, texts = headings[first].field, [repr(headings[index].text) for index in rivals]
    if field == "throughput":
        context = {
            h.field: _numbers(columns[i], h, where) for i, h in enumerate(headings) if h.field and i not in rivals
        }
        fit = [index for index in rivals if _fits(read[index], context)]
        if len(fit) == 1:
            return fit[0], "it fits the other columns"
        if total := _total(read, context):
            return total, "the other is the rate of one worker"
        if all(_proportional(read[first], read[index]) for index in rivals):
            return first, "they are proportional, so all ratios are the same"
    raise DataError(
        f"{where}: {' and '.join(texts)} both mean {field} and differ: choose one, as in "
        f"--columns {field}={headings[first].text}."
    )


def _numbers(cells: Sequence[str], heading: Heading, where: str) -> list[float | None]:
    """The values of a column; None for what is no number, which is refused later if the column is used."""
    values: list[float | None] = []
    for cell in cells:
        try:
            value = None if cell.lower() in NOT_GIVEN else read_cell(cell, heading, where)
        except DataError:
            value = None
        values.append(float(value) if isinstance(value, int | float) else None)
    return values


def _fits(rates: Sequence[float | None], context: Mapping[str, Sequence[float | None]]) -> bool:
    """Whether speed-ups, or work ÷ time, follow from these rates."""
    workers = context.get("workers") or context.get("devices") or []
    ratios = [*_by_speedup(rates, context), *_by_time(rates, workers, context)]
    return bool(ratios) and all(abs(ratio - 1) <= _SAME for ratio in ratios)


def _by_speedup(rates: Sequence[float | None], context: Mapping[str, Sequence[float | None]]) -> Iterator[float]:
    """Rate ÷ speed-up of each row, relative to the first."""
    pairs = zip(rates, context.get("speedup", ()), strict=False)
    implied = [rate / speedup for rate, speedup in pairs if rate and speedup]
    yield from (each / implied[0] for each in implied[1:])


def _by_time(
    rates: Sequence[float | None],
    workers: Sequence[float | None],
    context: Mapping[str, Sequence[float | None]],
) -> Iterator[float]:
    """Rate × step time ÷ global batch of each row; it must be 1."""
    rows = zip(rates, workers, context.get("batch", ()), context.get("step_seconds", ()), strict=False)
    for rate, count, batch, seconds in rows:
        if rate and count and batch and seconds:
            yield rate * seconds / (batch * count)


def _total(read: Mapping[int, Sequence[float | None]], context: Mapping[str, Sequence[float | None]]) -> int | None:
    """Of two columns, the one that is the other times the workers; None where neither is."""
    workers = context.get("workers") or context.get("devices")
    if workers is None or len(read) != 2:
        return None
    for total, one in (list(read), list(reversed(list(read)))):
        rows = [
            (a, b, n)
            for a, b, n in zip(read[total], read[one], workers, strict=True)
            if a is not None and b is not None and n is not None
        ]
        if any(n > 1 for _, _, n in rows) and all(math.isclose(a, b * n, rel_tol=_SAME) for a, b, n in rows):
            return total
    return None


def _proportional(first: Sequence[float | None], second: Sequence[float | None]) -> bool:
    ratios = [b / a for a, b in zip(first, second, strict=True) if a and b]
    return len(ratios) == len(first) and max(ratios) <= (1 + _SAME) * min(ratios)


def _require_enough(headings: Sequence[Heading], where: str) -> None:
    known = {heading.field for heading in headings}
    texts = ", ".join(heading.text for heading in headings)
    if not any(name in known for name in _COUNTS):
        raise DataError(
            f"{where}: none of the headings ({texts}) is a worker count: name one `workers` or `gpus`, or choose one "
            "with --columns workers=HEADING."
        )
    if not any(name in known for name in _FIGURES):
        raise DataError(
            f"{where}: none of the headings ({texts}) is a result: name one `throughput` or `images/s`, or choose one "
            "with --columns throughput=HEADING."
        )

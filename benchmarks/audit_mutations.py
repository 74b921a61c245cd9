"""How many slips in tables `paceline references check` finds, and how many sound tables it accuses.

    PACELINE_DATA=… python benchmarks/audit_mutations.py [--source references] [--each 3] [--missed] [--json]

Sound tables are the series of the references, the tables in `$PACELINE_DATA/gpu-tables`, and generated ones (several
laws, nodes with a slow link among them). Each is taken bare (workers, nodes, throughput) and with columns that follow
from one another (batch, step time, speed-up, efficiency). Then one slip is made in it, as people make them: every
kind, in up to `--each` places of every table. A slip is found if a fault or a warning names its row; a sound table is
accused if there is any fault or warning. The same seed gives the same slips.
"""

import argparse
import csv
import io
import json
import math
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline import references
from paceline.references.audit import audit
from paceline.references.findings import Finding
from paceline.references.spreadsheet import read

SEED = 13
LEAST_ROWS = 3
BATCH = 64
SOURCES = ("references", "gpu-tables", "generated")


@dataclass(frozen=True)
class Sheet:
    """A table as text."""

    name: str
    source: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def bare(self) -> bool:
        """Whether nothing in it follows from anything else."""
        return "speedup" not in self.headings

    def cell(self, row: int, heading: str) -> str:
        return self.rows[row][self.headings.index(heading)]

    def with_cell(self, row: int, heading: str, text: str) -> "Sheet":
        """The same table with one cell changed."""
        column = self.headings.index(heading)
        rows = [list(cells) for cells in self.rows]
        rows[row][column] = text
        return replace(self, rows=tuple(map(tuple, rows)))


Change = tuple[Sheet, frozenset[int]]
"""A table with a slip, and the indices of the rows that may be named for it."""

Slip = Callable[[Sheet, int, random.Random], Change | None]


def sheet(name: str, source: str, rows: Sequence[tuple[int, int | None, float]]) -> Sheet:
    """A bare table of workers, nodes where they are known, and throughput."""
    nodes = all(row[1] for row in rows)
    lines = [(str(n), *([str(m)] if nodes else []), f"{rate:.2f}".rstrip("0").rstrip(".")) for n, m, rate in rows]
    return Sheet(name, source, ("workers", *(["nodes"] if nodes else []), "throughput"), tuple(lines))


def full(bare: Sheet) -> Sheet | None:
    """The same table with a batch, and the step time, speed-up and efficiency that follow; None without a baseline."""
    if bare.cell(0, "workers") != "1":
        return None
    alone = float(bare.cell(0, "throughput"))
    rows = []
    for cells in bare.rows:
        workers, rate = int(cells[0]), float(cells[-1])
        step = f"{1000 * BATCH * workers / rate:.4g}"
        rows.append((*cells, str(BATCH), step, f"{rate / alone:.2f}", f"{100 * rate / alone / workers:.1f}"))
    headings = (*bare.headings, "batch", "step time (ms)", "speedup", "efficiency (%)")
    return Sheet(f"{bare.name}, all columns", bare.source, headings, tuple(rows))


def sound(source: str) -> Iterator[Sheet]:
    """All bare tables of a source."""
    if source == "references":
        for name in references.names():
            for series in references.load(name).series:
                rows = [(r.workers, r.nodes, r.throughput) for r in series.rows if (r.workers_per_device or 1) == 1]
                known = [(n, m, rate) for n, m, rate in rows if n and rate]
                if len({n for n, _, _ in known}) == len(known) >= LEAST_ROWS:
                    yield sheet(f"{name}: {series.label}", source, known)
    elif source == "gpu-tables":
        for path in sorted((Path(os.environ.get("PACELINE_DATA", "data")) / source).glob("*.csv")):
            with path.open(newline="") as file:
                given = [(int(r["workers"]), int(r["nodes"]), float(r["throughput"])) for r in csv.DictReader(file)]
            yield sheet(path.stem, source, given)
    else:
        yield from generated(random.Random(SEED))


def generated(chance: random.Random) -> Iterator[Sheet]:
    """Laws with 1 % of noise: flat ones, Amdahl's, a ring over nodes, and links that cost half of a step or more."""
    counts = ((1, 2, 4, 8), (1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 16, 32), (1, 4, 8, 16), (4, 8, 16, 32, 64), (1, 8, 16, 32))
    for index in range(40):
        workers, per_node = counts[index % len(counts)], chance.choice((4, 8))
        alone = 10 ** chance.uniform(1, 4.5)
        serial, latency, jump = chance.uniform(0, 0.1), chance.uniform(0, 0.005), chance.choice((0.02, 0.3, 1.5, 4.0))
        rows = []
        for n in workers:
            nodes = -(-n // per_node)
            step = 1 + serial * (1 - 1 / n) + latency * (n - 1) + (jump * 2 * (nodes - 1) / nodes if nodes > 1 else 0)
            rows.append((n, nodes if index % 2 else None, alone * n / step * math.exp(chance.gauss(0, 0.01))))
        yield sheet(f"generated {index}", "generated", rows)


def dropped_digit(table: Sheet, row: int, chance: random.Random) -> Change | None:
    """One digit before the decimal point is left out."""
    whole, dot, rest = table.cell(row, "throughput").partition(".")
    if len(whole) < 2:
        return None
    place = chance.randrange(len(whole))
    text = whole[:place] + whole[place + 1 :] + dot + rest
    return (table.with_cell(row, "throughput", text), frozenset({row})) if float(text) else None  # 0 is refused


def doubled_digit(table: Sheet, row: int, chance: random.Random) -> Change | None:
    """One digit is typed twice."""
    whole, dot, rest = table.cell(row, "throughput").partition(".")
    place = chance.randrange(len(whole))
    text = whole[:place] + whole[place] + whole[place:] + dot + rest
    return table.with_cell(row, "throughput", text), frozenset({row})


def per_worker(table: Sheet, row: int, _: random.Random) -> Change | None:
    """One row has the rate of one worker."""
    workers = int(table.cell(row, "workers"))
    if workers == 1:
        return None
    rate = float(table.cell(row, "throughput")) / workers
    return table.with_cell(row, "throughput", f"{rate:.2f}"), frozenset({row})


def swapped(table: Sheet, row: int, chance: random.Random) -> Change | None:
    """Two rows have each other's speed."""
    other = chance.choice([index for index in range(len(table.rows)) if index != row])
    first, second = table.cell(row, "throughput"), table.cell(other, "throughput")
    mutated = table.with_cell(row, "throughput", second).with_cell(other, "throughput", first)
    return mutated, frozenset({row, other})


def other_unit(table: Sheet, row: int, _: random.Random) -> Change | None:
    """One row is in thousands."""
    return table.with_cell(row, "throughput", f"{float(table.cell(row, 'throughput')) / 1000:.6g}"), frozenset({row})


def wrong_baseline(table: Sheet, row: int, chance: random.Random) -> Change | None:
    """The row of one worker was measured otherwise; what was derived from the right one stays."""
    if row != 0 or table.bare:
        return None
    rate = float(table.cell(0, "throughput")) * chance.choice((0.6, 0.8, 0.9, 1.1, 1.25, 1.6))
    return table.with_cell(0, "throughput", f"{rate:.2f}"), frozenset({0})


def slow_baseline(table: Sheet, row: int, chance: random.Random) -> Change | None:
    """In a bare table, the row of one worker is too slow."""
    if row != 0 or not table.bare or table.cell(0, "workers") != "1":
        return None
    rate = float(table.cell(0, "throughput")) * chance.choice((0.4, 0.5, 0.6))
    return table.with_cell(0, "throughput", f"{rate:.2f}"), frozenset({0})


def _mistyped(heading: str) -> Slip:
    def mistype(table: Sheet, row: int, chance: random.Random) -> Change | None:
        """One of the first two digits is another one."""
        if heading not in table.headings or row == 0:
            return None
        text = table.cell(row, heading)
        place = chance.choice([index for index, sign in enumerate(text) if sign.isdigit()][:2])
        digit = str((int(text[place]) + chance.randrange(1, 9)) % 10)
        return table.with_cell(row, heading, text[:place] + digit + text[place + 1 :]), frozenset({row})

    return mistype


def efficiency_as_share(table: Sheet, row: int, _: random.Random) -> Change | None:
    """One efficiency of a column in percent is a fraction."""
    if table.bare or row == 0:
        return None
    share = float(table.cell(row, "efficiency (%)")) / 100
    return table.with_cell(row, "efficiency (%)", f"{share:.3f}"), frozenset({row})


def step_in_seconds(table: Sheet, row: int, _: random.Random) -> Change | None:
    """One step time of a column in milliseconds is in seconds."""
    if table.bare:
        return None
    seconds = float(table.cell(row, "step time (ms)")) / 1000
    return table.with_cell(row, "step time (ms)", f"{seconds:.6g}"), frozenset({row})


def wrong_count(table: Sheet, row: int, chance: random.Random) -> Change | None:
    """One count of workers is ten times too large, or that of another row."""
    if row == 0 or "nodes" in table.headings:
        return None
    others = [cells[0] for index, cells in enumerate(table.rows) if index not in (0, row)]
    return table.with_cell(row, "workers", chance.choice([table.cell(row, "workers") + "0", *others])), frozenset(
        range(len(table.rows))
    )


KINDS: dict[str, Slip] = {
    "a dropped digit": dropped_digit,
    "a digit typed twice": doubled_digit,
    "one worker's rate in a row": per_worker,
    "two rows exchanged": swapped,
    "a row in thousands": other_unit,
    "a wrong baseline": wrong_baseline,
    "a slow baseline": slow_baseline,
    "a mistyped speed-up": _mistyped("speedup"),
    "a mistyped efficiency": _mistyped("efficiency (%)"),
    "a mistyped step time": _mistyped("step time (ms)"),
    "an efficiency in another unit": efficiency_as_share,
    "a step time in another unit": step_in_seconds,
    "a wrong count": wrong_count,
}


def found(table: Sheet, folder: Path) -> list[Finding]:
    """What the audit has against a table."""
    text = io.StringIO()
    csv.writer(text).writerows([table.headings, *table.rows])
    path = folder / "table.csv"
    path.write_text(text.getvalue())
    return [finding for finding in audit(read(path)) if finding.severity != "note"]


def trials(tables: Sequence[Sheet], kind: str, each: int) -> Iterator[Change]:
    """Slips of one kind in up to `each` rows of every table, never the same table again."""
    for table in tables:
        chance = random.Random(f"{SEED} {kind} {table.name}")
        places = list(range(len(table.rows)))
        chance.shuffle(places)
        changes = [change for row in places if (change := KINDS[kind](table, row, chance))]
        yield from [change for change in changes if change[0].rows != table.rows][:each]


def judged(sources: Sequence[str], each: int) -> dict[str, object]:
    """Accusations of sound tables, and for every kind of slip what was found, named and missed."""
    bare = [table for source in sources for table in sound(source)]
    tables = [*bare, *(extended for table in bare if (extended := full(table)))]
    with tempfile.TemporaryDirectory() as folder:
        accused = {t.name: [f.sentence for f in told] for t in tables if (told := found(t, Path(folder)))}
        kinds = {}
        for kind in KINDS:
            counts, missed = {"made": 0, "found": 0, "named": 0, "faults": 0}, []
            for mutated, rows in trials(tables, kind, each):
                findings = found(mutated, Path(folder))
                lines = {row + 2 for row in rows}
                counts["made"] += 1
                counts["found"] += bool(findings)
                counts["named"] += any(lines & {row.line for row in finding.rows} for finding in findings)
                counts["faults"] += any(finding.severity == "fault" for finding in findings)
                if not findings:
                    missed.append(f"{mutated.name}: {' | '.join(' '.join(row) for row in mutated.rows)}")
            kinds[kind] = {**counts, "missed": missed}
    return {"tables": len(tables), "accused": accused, "kinds": kinds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=SOURCES, action="append")
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--missed", action="store_true", help="print the tables in which nothing was found")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    result = judged(asked.source or SOURCES, asked.each)
    if asked.json:
        print(json.dumps(result, indent=2))
        return
    accused, kinds = result["accused"], result["kinds"]
    assert isinstance(accused, dict)
    assert isinstance(kinds, dict)
    print(f"{len(accused)} of {result['tables']} sound tables accused")
    for name, sentences in accused.items():
        print(f"  {name}: {' '.join(sentences)}")
    print(f"{'slip':32}{'made':>6}{'found':>7}{'row named':>11}{'as fault':>10}")
    for kind, told in kinds.items():
        print(f"{kind:32}{told['made']:6}{told['found']:7}{told['named']:11}{told['faults']:10}")
        for table in told["missed"] if asked.missed else ():
            print(f"    {table}")
    made, hit = (sum(told[key] for told in kinds.values()) for key in ("made", "found"))
    print(f"{'all':32}{made:6}{hit:7}   {hit / made:.1%}")


if __name__ == "__main__":
    main()

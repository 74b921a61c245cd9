"""`paceline project`: what more workers, or another network, would bring."""

import json as jsons
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paceline.errors import SpecError

if TYPE_CHECKING:
    from paceline.project.curve import Curve, Point
    from paceline.record import Record

_TABLES = (".csv", ".tsv", ".txt", ".md")

# Everything else is imported in the functions, so that --help answers at once.


def project(
    source: Annotated[
        list[str], typer.Argument(metavar="SOURCE…", help="A CSV table, a reference's name, a study, or records.")
    ],
    workers: Annotated[str, typer.Option(help="Counts to project: 1..64 or 1,2,4.")] = "1..64",
    at: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Points instead: workers, nodes, batch.")] = None,
    workers_per_node: Annotated[int | None, typer.Option(help="How many workers fill a node.")] = None,
    batch: Annotated[float | None, typer.Option(help="Samples per worker (default: as measured).")] = None,
    series: Annotated[str | None, typer.Option(help="Which of a table's series.")] = None,
    network: Annotated[str | None, typer.Option(help="Records only: 1Gbps,latency=50us between nodes.")] = None,
    strategy: Annotated[str | None, typer.Option(help="Records only: another way to agree.")] = None,
    efficiency: Annotated[float | None, typer.Option(help="How many workers reach this share: 0.8.")] = None,
    price: Annotated[float | None, typer.Option(help="Per worker and hour: adds the cost of a million.")] = None,
    target: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Runs that reached a loss (global_batch,samples): adds the time to it."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Project a curve with its bands, knee and limits, from a table of workers and throughput or from records.

    Examples:

      paceline project results.csv --workers 1..64

      paceline project results.csv --workers 8,16,32 --workers-per-node 8 --price 2.5

      paceline project dgx1-p100 --series VGG16 --workers 1..16 --efficiency 0.8

      paceline project runs/demo --workers 1..16 --workers-per-node 2 --network 1Gbps,latency=50us --strategy ps
    """
    from paceline.project.points import on_nodes, parse_workers, read_points

    _require_positive(efficiency=efficiency, price=price)
    points = read_points(at) if at is not None else on_nodes(parse_workers(workers), workers_per_node, batch)
    curve, unit = _curve(source, series, points, {"network": network, "strategy": strategy}, workers_per_node)
    if json:
        _print_json(curve, efficiency, price, target)
    else:
        _print(curve, unit, efficiency, price, target)


def _require_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise SpecError(f"--{name} {value} is not valid: it must be above 0.")


def _curve(
    source: Sequence[str],
    series: str | None,
    points: "Sequence[Point]",
    asked: dict[str, str | None],
    workers_per_node: int | None,
) -> "tuple[Curve, str | None]":
    """By the simulation where there are records with sampled gradients, by laws fitted to the rows otherwise."""
    from paceline.project.forecast import forecast
    from paceline.project.table import from_series, one_series

    records = _records(source)
    given = [f"--{name}" for name, value in asked.items() if value is not None]
    if records and any(record.gradients for record in records):
        return _simulated(records, points, asked, workers_per_node), records[0].throughput.get("unit")
    if given:
        why = "the records hold no gradients" if records else "a table does not say what is exchanged"
        raise SpecError(f"{' and '.join(given)} cannot be answered from {source[0]}, {why}: give records of a run.")
    reference = _reference(source, records)
    chosen = one_series(reference, series)
    table = from_series(reference.title, chosen)
    return forecast(table).curve(points), table.unit


def _records(source: Sequence[str]) -> "list[Record]":
    """What the paths hold, unless they are a table."""
    from paceline import references
    from paceline.explain.runs import find

    if len(source) == 1 and (source[0] in references.names() or Path(source[0]).suffix in _TABLES):
        return []
    return [run.record for run in find([Path(path) for path in source]).runs]


def _reference(source: Sequence[str], records: "list[Record]") -> Any:
    from paceline import references
    from paceline.references import records as ours
    from paceline.references import spreadsheet

    if records:
        return ours.from_records(source[0], records)
    return references.load(source[0]) if source[0] in references.names() else spreadsheet.read(Path(source[0]))


def _simulated(
    records: "list[Record]", points: "Sequence[Point]", asked: dict[str, str | None], workers_per_node: int | None
) -> "Curve":
    from paceline.project.network import Network
    from paceline.project.whatif import Measured, Question, curve

    network = Network.parse(asked["network"]) if asked["network"] is not None else None
    question = Question(strategy=asked["strategy"], network=network, workers_per_node=workers_per_node)
    return curve(Measured.of_records(records), points, question)


def _print_json(curve: "Curve", efficiency: float | None, price: float | None, target: Path | None) -> None:
    from dataclasses import asdict

    from paceline.project import targets, words

    content = words.data(curve)
    if efficiency is not None:
        content["workers_worth_having"] = targets.workers_worth_having(curve, efficiency)
    if price is not None:
        content["cost_per_unit"] = [targets.cost_per_unit(point, price) for point in curve.points]
    if target is not None:
        law = targets.fit_samples(*targets.read_runs(target))
        times = [targets.time_to_target(law, point) for point in curve.points]
        content["time_to_target"] = [None if time is None else asdict(time) for time in times]
    print(jsons.dumps(content, indent=2, allow_nan=False))


def _print(
    curve: "Curve", unit: str | None, efficiency: float | None, price: float | None, target: Path | None
) -> None:
    """Words first, then the table."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    from paceline.project import targets, words
    from paceline.units import human_seconds

    console = Console(highlight=False, soft_wrap=True)
    for sentence in words.sentences(curve, unit):
        console.print(sentence, markup=False)
    if efficiency is not None:
        worth = targets.workers_worth_having(curve, efficiency)
        console.print(f"At an efficiency of {efficiency:.0%} or better: {worth or 'none of these'} workers.")
    more: dict[str, list[str]] = {}
    if price is not None:
        costs = [targets.cost_per_unit(point, price) for point in curve.points]
        more["cost of a million"] = [words.number(None if cost is None else 1e6 * cost) for cost in costs]
    if target is not None:
        law = targets.fit_samples(*targets.read_runs(target))
        times = [targets.time_to_target(law, point) for point in curve.points]
        more["time to target (80 %)"] = [
            "" if t is None else f"{human_seconds(t.seconds)} ({human_seconds(t.low80)}–{human_seconds(t.high80)})"
            for t in times
        ]
    headings, lines = words.rows(curve.points, more)
    grid = Table(box=box.ROUNDED)
    for heading in headings:
        grid.add_column(heading, justify="right")
    for line in lines:
        grid.add_row(*line)
    if not console.is_terminal:  # nothing is cut where the output is a file
        console.width = Measurement.get(console, console.options.update(max_width=10_000), grid).maximum
    console.print(grid)
    console.print(f"law: {curve.law}", markup=False)
    console.print(f"validated on {curve.validated_on}", markup=False)
    for warning in curve.warnings:
        console.print(f"[yellow]warning[/yellow] {warning}")

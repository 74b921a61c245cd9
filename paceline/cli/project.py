"""`paceline project`: predict the throughput of more workers or another network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paceline.cli import project_output as output
from paceline.errors import OutputError, SpecError

if TYPE_CHECKING:
    from paceline.project.curve import Point
    from paceline.project.questions.answer import Answer, Runs
    from paceline.project.questions.extra import ExtraAnswer
    from paceline.project.questions.targets import SamplesToTarget
    from paceline.project.questions.whatif import Question
    from paceline.record import Record
    from paceline.references.base import Reference

_TABLES = (".csv", ".tsv", ".txt", ".md")
_PICTURES = (".svg", ".png")
_USUAL_WORKERS = 64

# Everything else is imported in the functions, so that --help answers at once.

_POINTS, _WHAT_IF, _ANSWER = "What to project", "What if (from records of runs)", "More answers"

Source = Annotated[
    list[str], typer.Argument(metavar="SOURCE…", help="A CSV table, a reference's name, a study, or records.")
]
Workers = Annotated[
    str | None, typer.Option(rich_help_panel=_POINTS, help="Numbers of workers: 1..64 or 1,2,4 (default: 1..64).")
]
At = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_POINTS, metavar="FILE.csv", help="Read points from a CSV file: workers, nodes, batch."
    ),
]
WorkersPerNode = Annotated[int | None, typer.Option(rich_help_panel=_POINTS, help="Workers per node.")]
Batch = Annotated[
    float | None, typer.Option(rich_help_panel=_POINTS, help="Batch size per worker (default: as measured).")
]
Series = Annotated[
    str | None, typer.Option(rich_help_panel=_POINTS, help="The series to use, if the source has several.")
]
Strategy = Annotated[
    str | None,
    typer.Option(rich_help_panel=_WHAT_IF, help="Another strategy: ps, bf16+allreduce:bucket=4MB."),
]
NetworkText = Annotated[
    str | None,
    typer.Option("--network", rich_help_panel=_WHAT_IF, help="The network between nodes: 1Gbps,latency=50us."),
]
DeviceSpeed = Annotated[
    float, typer.Option(rich_help_panel=_WHAT_IF, help="Devices compute this many times as fast: 2.")
]
FeedSpeed = Annotated[float, typer.Option(rich_help_panel=_WHAT_IF, help="Batches arrive this many times as fast: 2.")]
Other = Annotated[
    str | None,
    typer.Option(
        "--break-even",
        metavar="STRATEGY",
        rich_help_panel=_WHAT_IF,
        help="Find the bandwidth at which this strategy is as fast, at the largest number of workers asked for.",
    ),
]
Efficiency = Annotated[
    float | None, typer.Option(rich_help_panel=_ANSWER, help="Find how many workers reach this efficiency: 0.8.")
]
Worth = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_ANSWER,
        metavar="FEWER,MORE",
        help="Say whether more workers are worth it, and what to measure next: 8,64.",
    ),
]
Price = Annotated[
    float | None,
    typer.Option(rich_help_panel=_ANSWER, help="Price of a worker per hour; adds the cost per million units."),
]
ToLoss = Annotated[
    float | None,
    typer.Option(rich_help_panel=_ANSWER, help="Add the time to reach this loss, from runs with several batch sizes."),
]
Target = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=_ANSWER,
        metavar="PATH",
        help="Other runs for the time to a loss: a study or, without --to-loss, a CSV of global_batch,samples.",
    ),
]
ChartFile = Annotated[
    Path | None,
    typer.Option("--chart", rich_help_panel=_ANSWER, metavar="FILE.svg|png", help="Draw the curve with its bands."),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="FIELD=HEADING,…", help="What columns of your table mean: workers=gpus,throughput=img/s."),
]
Anyway = Annotated[bool, typer.Option("--anyway", help="Use records together even if they are of different machines.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def project(
    source: Source,
    workers: Workers = None,
    at: At = None,
    workers_per_node: WorkersPerNode = None,
    batch: Batch = None,
    series: Series = None,
    strategy: Strategy = None,
    network: NetworkText = None,
    device_speed: DeviceSpeed = 1.0,
    feed_speed: FeedSpeed = 1.0,
    break_even: Other = None,
    efficiency: Efficiency = None,
    worth: Worth = None,
    price: Price = None,
    to_loss: ToLoss = None,
    target: Target = None,
    chart: ChartFile = None,
    columns: Columns = None,
    anyway: Anyway = False,
    json: AsJson = False,
) -> None:
    """Project a curve with its bands, knee and limits, from a table of workers and throughput or from records.

    Examples:

      paceline project results.csv --workers 1..64

      paceline project results.csv --workers 8,16,32 --workers-per-node 8 --price 2.5 --chart curve.svg

      paceline project dgx1-p100 --series VGG16 --workers 1..16 --efficiency 0.8

      paceline project runs/demo --workers 1..16 --strategy bf16+allreduce --batch 64 --device-speed 2

      paceline project runs/demo --workers 2..16 --workers-per-node 1 --network 1Gbps,latency=50us --break-even ps

      paceline project results.csv --worth 8,64

      paceline project runs/batches --workers 1..16 --to-loss 150
    """
    from paceline.network import parse_network
    from paceline.project.questions.verdict import parse_worth
    from paceline.project.questions.whatif import Question
    from paceline.project.simulation.network import SimulatedNetwork
    from paceline.references.columns import parse_columns

    _check(efficiency, price, chart)
    question = Question(
        strategy=strategy,
        network=None if network is None else SimulatedNetwork.of(parse_network(network)),
        workers_per_node=workers_per_node,
        device_speed=device_speed,
        feed_speed=feed_speed,
    )
    both = None if worth is None else parse_worth(worth)
    points = _points(workers, at, workers_per_node, batch, both)
    asked = _Asked(points, question, efficiency, price, to_loss, target, break_even, both)
    given, notes = _read(source, parse_columns(columns), anyway=anyway)
    answer, further = _answer(given, series, asked)
    answer = replace(answer, curve=replace(answer.curve, warnings=(*notes, *answer.curve.warnings)))
    if chart is not None:
        output.draw(answer, chart)
    (output.print_json if json else output.print_answer)(answer, further)


@dataclass(frozen=True)
class _Asked:
    """Everything the user asked for, whether a table or records answer it."""

    points: "list[Point]"
    question: "Question"
    efficiency: float | None
    price: float | None
    to_loss: float | None
    target: Path | None
    break_even: str | None
    worth: tuple[int, int] | None

    @property
    def what_if(self) -> bool:
        """Whether the answer needs records of runs."""
        from paceline.project.questions.whatif import Question

        return self.question != Question(workers_per_node=self.question.workers_per_node) or bool(self.break_even)


def _check(efficiency: float | None, price: float | None, chart: Path | None) -> None:
    if efficiency is not None and not 0 < efficiency <= 1:
        raise SpecError(f"--efficiency {efficiency:g} is not valid: it must be a share of the ideal, as in 0.8.")
    if price is not None and not 0 < price < float("inf"):
        raise SpecError(f"--price {price:g} is not valid: it must be above 0.")
    if chart is not None and chart.suffix.lower() not in _PICTURES:
        raise OutputError(f"--chart {chart} is not a picture file: its name must end in {' or '.join(_PICTURES)}.")


def _points(
    workers: str | None,
    at: Path | None,
    workers_per_node: int | None,
    batch: float | None,
    worth: tuple[int, int] | None,
) -> "list[Point]":
    """The points of the file or of the range; the other flags fill in what a line of the file leaves out."""
    from paceline.project.questions.points import on_nodes, parse_workers, read_points

    if at is None:
        usual = f"1..{max(_USUAL_WORKERS, worth[1] if worth else 0)}"
        return on_nodes(parse_workers(usual if workers is None else workers), workers_per_node, batch)
    if workers is not None:
        raise SpecError(f"--workers {workers} and --at {at} both say what to project: give one of them.")
    read = read_points(at)
    filled = on_nodes([point.workers for point in read], workers_per_node, batch)
    return [replace(p, nodes=p.nodes or f.nodes, batch=p.batch or f.batch) for p, f in zip(read, filled, strict=True)]


def _read(
    source: Sequence[str], chosen: Mapping[str, str], *, anyway: bool
) -> "tuple[Reference | list[Record], tuple[str, ...]]":
    """A table, or the records that the paths hold, with notes about them."""
    from paceline import references
    from paceline.measure.runs import find, of_one_machine
    from paceline.references import spreadsheet

    tables = [name for name in source if name in references.names() or Path(name).suffix.lower() in _TABLES]
    if tables and len(source) > 1:
        raise SpecError(f"{tables[0]} is a table, and only one table can be projected at a time: give it alone.")
    if tables:
        named = tables[0] in references.names()
        return references.load(tables[0]) if named else spreadsheet.read(Path(tables[0]), chosen), ()
    found = find([Path(path) for path in source])
    runs, differences = of_one_machine(found.runs, anyway=anyway)
    return [run.record for run in runs], (*found.notes, *differences)


def _answer(given: "Reference | list[Record]", series: str | None, asked: _Asked) -> "tuple[Answer, list[ExtraAnswer]]":
    """The curve, and the answers to further questions about it."""
    from paceline.project.curve import Point
    from paceline.project.questions import extra
    from paceline.project.questions.answer import Runs

    ready = Runs.of(given, asked.question.strategy, series) if isinstance(given, list) else given
    runs = ready if isinstance(ready, Runs) else None
    first, found = asked.points[0], []
    alone = Point(1, None if first.nodes is None else 1, first.batch)
    answer = _curve(ready, series, asked, [*asked.points, alone] if asked.efficiency else asked.points)
    if asked.efficiency is not None:
        *own, one = answer.curve.points
        answer = replace(answer, curve=replace(answer.curve, points=tuple(own)))
        found.append(extra.worth_having(own, one, asked.efficiency))
    if runs is not None and asked.break_even is not None:
        largest = max(asked.points, key=lambda point: point.workers)
        pair = (asked.question.strategy or runs.strategy, asked.break_even)
        both = Runs.of_pair(given if isinstance(given, list) else runs.records, pair, series)
        found.append(extra.break_even(both, largest, asked.question, pair))
    if asked.worth is not None:
        found.append(_worth(ready, series, asked, asked.worth))
    if asked.price is not None:
        found.append(extra.costs(answer, asked.price))
    if asked.to_loss is not None or asked.target is not None:
        law, what = _law_of_samples(runs, asked)
        found.append(extra.time_to(law, answer.curve.points, what))
    return answer, found


def _worth(given: "Reference | Runs", series: str | None, asked: _Asked, counts: tuple[int, int]) -> "ExtraAnswer":
    """The verdict on the larger of two counts."""
    from paceline.project.questions import extra
    from paceline.project.questions.answer import Runs, of_table_if_measured
    from paceline.project.questions.points import on_nodes
    from paceline.project.questions.verdict import NEEDED, verdict

    points = on_nodes(list(counts), asked.question.workers_per_node, asked.points[0].batch)
    answer = _curve(given, series, asked, points)
    after = (
        given.if_measured(points[1], asked.question)
        if isinstance(given, Runs)
        else of_table_if_measured(given, series, points[1])
    )
    measured = sorted({workers for workers, _ in answer.measured})
    fewer, more = answer.curve.points
    found = verdict(fewer, more, asked.efficiency or NEEDED, measured, after) if measured else None
    return extra.worth(found, *counts)


def _curve(given: "Reference | Runs", series: str | None, asked: _Asked, points: "Sequence[Point]") -> "Answer":
    from paceline.project.questions.answer import Runs, of_table

    if isinstance(given, Runs):
        return given.ask(points, asked.question, output.shown_progress)
    if asked.what_if:
        raise SpecError(
            "Another strategy, network or speed cannot be predicted from a table: it does not say what is exchanged. "
            "Give records of a run."
        )
    return of_table(given, series, points)


def _law_of_samples(runs: "Runs | None", asked: _Asked) -> "tuple[SamplesToTarget, str]":
    """From a CSV file, from a study of its own, or from the source's records of the same strategy."""
    from paceline.project.questions import targets

    path, loss = asked.target, asked.to_loss
    if path is not None and path.suffix.lower() in _TABLES:
        if loss is not None:
            raise SpecError(
                f"--to-loss {loss:g} is for records, but the runs in {path} "
                "already have their own target: give only one of the two."
            )
        return targets.fit_samples(targets.read_runs(path)), "the target"
    if loss is None:
        raise SpecError(f"--target {path} holds many losses: choose one with --to-loss.")
    if path is not None:
        records, _ = _read([str(path)], {}, anyway=False)
    elif runs is not None:
        records = list(runs.records)
    else:
        raise SpecError(f"--to-loss {loss:g}: a table holds no losses. Add --target with a study or a CSV.")
    if not isinstance(records, list):
        raise SpecError(f"--target {path} is a published table without losses: give a study, or a CSV file of runs.")
    if runs and {r.spec.workload for r in records} != {runs.workload}:
        raise SpecError(f"--target {path} holds another workload: give runs of the source's, or a CSV file.")
    return targets.fit_samples(targets.reached(records, loss)), f"a loss of {loss:g}"

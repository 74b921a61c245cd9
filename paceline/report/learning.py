"""How the number of workers changes the loss, for the same samples and for the same time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np

from paceline.measure.series import Series
from paceline.numbers import number as digits
from paceline.numbers import significant
from paceline.report import charts
from paceline.report.results import Result, Results, measured
from paceline.report.scaling import conditions
from paceline.report.section import Chart, Section
from paceline.report.shown import fastest, lines_of, shown_first
from paceline.report.tables import PageTable, TableCell, number, word
from paceline.studies.columns import COLUMNS

_POINTS = 16_000
"""The most points, over all curves, with which a page still scrolls smoothly."""

_MOST = 60
_LEAST = 8
_MOST_SERIES = 100
"""The most curves for which the exact times of steps are read; more would take too long."""

_WITHIN = 0.97
"""Share of all points that the axis covers at least."""

_SPIKE = 1.5
"""A point is cut off if it is more than this many times as high as all the others."""

_ROOM = 0.05
_HOVER = [
    *charts.hover(name="setting", kind="loss in"),
    alt.Tooltip("loss:Q", format=".5~g"),
    alt.Tooltip("samples:Q", title="samples seen", format=",.0f"),
    alt.Tooltip("seconds:Q", title="seconds of training", format=".4~g"),
    *charts.hover(conditions="with"),
]


@dataclass(frozen=True)
class LossCurve:
    """The loss of one run: means over groups of consecutive steps, and where each group ends."""

    result: Result
    samples: Series
    seconds: Series
    loss: Series
    validation: tuple[tuple[float, float, float], ...]
    """Samples, seconds and loss of each validation."""


def loss(results: Results) -> Section | None:
    """Two charts per model and a table; None where no record has a loss."""
    learned = [row for row in results.rows if any(x is not None for x in row.record.learning.loss or ())]
    if not learned:
        return None
    points = max(_LEAST, min(_MOST, _POINTS // len(learned)))
    curves = [curve(row, points, exact=len(learned) <= _MOST_SERIES) for row in learned]
    panels = dict.fromkeys(c.result.panel for c in curves)
    drawn = tuple(
        _chart(results, [c for c in curves if c.result.panel == panel], axis, number)
        for number, panel in enumerate(panels, start=1)
        for axis in ("samples", "seconds")
    )
    words = (
        "Lines show the training loss of the first repeat, averaged over groups of steps. Marks show the validation "
        "loss. More workers may learn less from each sample, but process more samples in the same time. "
        "Spikes beyond the axis are cut off.",
        *_compared(results, curves),
    )
    table = _table(learned)
    return Section(name="loss", title="Loss: what more workers change", words=words, charts=drawn, tables=(table,))


def curve(row: Result, points: int, *, exact: bool) -> LossCurve:
    """The loss curve of the first repeat; without `exact` all steps are assumed to be equally long."""
    run, record = row.runs[0], row.record
    losses = np.array([math.nan if x is None else x for x in record.learning.loss], dtype=float)
    steps = len(losses)
    samples = np.arange(1, steps + 1) / steps * record.learning.samples_seen
    seconds = np.arange(1, steps + 1) / steps * record.wall_seconds.training
    if exact and run.series and len(run.series[0].end) >= steps:
        first = run.series[0]
        seconds = np.cumsum((first.end - first.begin)[:steps])
    stretches = [
        part for part in np.array_split(np.arange(steps), min(points, steps)) if np.isfinite(losses[part]).any()
    ]
    ends = [int(part[-1]) for part in stretches]
    means = np.array([np.nanmean(losses[part]) for part in stretches])
    checks = tuple(
        (float(v.samples), float(seconds[min(int(v.step), steps) - 1]), float(v.loss))
        for v in record.learning.validation or ()
        if v.loss is not None and v.step
    )
    return LossCurve(row, samples[ends], seconds[ends], means, checks)


def _compared(results: Results, curves: Sequence[LossCurve]) -> Iterator[str]:
    """Compare the fastest setting with one worker alone after equal samples and after equal time."""
    by_row = {id(c.result): c for c in curves}
    best = fastest(results.rows)
    alone = next((r for r in results.rows if best.scaling.baseline and r.record is best.scaling.baseline[0]), None)
    if alone is None or alone is best or id(best) not in by_row or id(alone) not in by_row:
        return
    ours, theirs = by_row[id(best)], by_row[id(alone)]
    comparisons = []
    for axis, unit in (("samples", "samples"), ("seconds", "s of training")):
        until = min(getattr(c, axis)[-1] for c in (ours, theirs))
        values = [digits(round(float(np.interp(until, getattr(c, axis), c.loss)), 6)) for c in (ours, theirs)]
        comparisons.append(f"after {significant(until)} {unit} {values[0]} and {values[1]}")
    yield f"Training loss of {best.label} and of {alone.label}: {'; '.join(comparisons)}."


def _chart(results: Results, curves: Sequence[LossCurve], axis: str, number: int) -> Chart:
    data = charts.chosen(charts.joined(_points(curves), map(_setting, curves)))
    title = "samples seen" if axis == "samples" else "seconds of training"
    x = alt.X(f"{axis}:Q", title=title, axis=charts.axis(grid=False))
    low, high = _ends(curves)
    y = alt.Y("loss:Q", title="loss", scale=alt.Scale(domain=[low, high], zero=False), axis=alt.Axis(tickCount=6))
    rows = [c.result for c in curves]
    lines = lines_of(rows)
    colour = charts.colour(lines)
    workers = sorted({c.result.workers for c in curves})
    dashes = alt.StrokeDash(
        "workers:O", scale=alt.Scale(domain=workers, range=charts.dashes()), legend=_dash_legend(workers)
    )
    train = (
        data.transform_filter("datum.kind == 'training'")
        .mark_line(strokeWidth=1.8, clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=dashes, detail=alt.Detail("name:N"))
    )
    near = data.mark_point(filled=True, size=110, opacity=1, clip=True).encode(
        x=x,
        y=y,
        color=colour,
        shape=charts.shape(lines),
        # Points of a line are invisible, but react to hovering.
        fillOpacity=alt.FillOpacityValue(0, condition=[{"test": "datum.kind == 'validation'", "value": 1}]),
        tooltip=_HOVER,
    )
    panel = f"{rows[0].panel}: " if len(results.panels) > 1 else ""
    against = "samples seen" if axis == "samples" else "time"
    suffix = f"-{number}" if len(results.panels) > 1 else ""
    return Chart(
        name=f"loss-against-{'samples' if axis == 'samples' else 'time'}{suffix}",
        title=f"{panel}Loss against {against}",
        subtitle=conditions(rows),
        specification=charts.layered(train, near, shown=shown_first(results, lines)),
        lines=lines,
    )


def _ends(curves: Sequence[LossCurve]) -> tuple[float, float]:
    """The ends of the axis; a few spikes are cut off so that they do not flatten everything else."""
    values = np.concatenate([c.loss for c in curves])
    checks = [value for c in curves for _, _, value in c.validation]
    low, high = (
        float(min(values.min(), *checks, math.inf)),
        float(max(np.quantile(values, _WITHIN), *checks, -math.inf)),
    )
    room = _ROOM * (high - low) or 1.0
    return low - room, high + room


def _dash_legend(workers: Sequence[int]) -> alt.Legend | None:
    if len(workers) == 1:
        return None
    return alt.Legend(title="workers", orient="bottom", direction="horizontal", symbolType="stroke", symbolSize=400)


def _points(curves: Sequence[LossCurve]) -> Iterator[charts.Datum]:
    """The values of every point; what all points of a curve share is looked up by the curve's number."""
    for of, c in enumerate(curves):
        trained = ((*row, "training") for row in zip(c.samples, c.seconds, c.loss, strict=True))
        checked = ((*row, "validation") for row in c.validation)
        for samples, seconds, value, kind in (*trained, *checked):
            yield {
                "of": of,
                "kind": kind,
                "loss": _short(value),
                "samples": _short(samples),
                "seconds": _short(seconds),
            }


def _short(value: float) -> float | None:
    """Round to six digits, which suffices for a picture and halves the page."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _setting(c: LossCurve) -> charts.Datum:
    row = c.result
    return {"line": row.line, "name": row.label, "workers": row.workers, "conditions": row.conditions}


def _table(rows: Sequence[Result]) -> PageTable:
    """Every loss with the settings that it depends on."""
    headings = (
        *("setting", "workers", "last loss", "val_loss", "samples", "updates"),
        *("global batch", "lr", "lr rule", "gradients by"),
    )
    cells = tuple(
        (
            word(row.line),
            number(row.workers),
            *(_column(name, row) for name in ("loss", "val_loss", "samples", "updates", "global_batch")),
            number(row.record.learning.lr, "{:g}".format),
            word(row.record.learning.lr_rule),
            word(row.record.learning.reduction),
        )
        for row in rows
    )
    lines = tuple(row.line for row in rows)
    title = f"Loss at the end of the runs, medians over the repeats · {conditions(rows)}"
    return PageTable(name="loss", title=title, headings=headings, rows=cells, lines=lines)


def _column(name: str, row: Result) -> TableCell:
    value = measured(COLUMNS[name], row)
    return TableCell(COLUMNS[name].written(value), value)

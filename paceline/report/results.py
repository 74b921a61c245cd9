"""Read study folders into settings, each with its figures, its comparison and the curve it belongs to."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from paceline.breakdown.comparison import Comparison, comparisons
from paceline.breakdown.gap import Gap
from paceline.measure.runs import StoredRun, find, of_one_machine, scaling_of
from paceline.measure.scaling import Scaling, ScalingRow
from paceline.numbers import count
from paceline.record import SIDECAR_NAME, STUDY_NAME, Record
from paceline.report.lines import Dimension, PlacedRecord, dimensions_of
from paceline.studies.columns import Column, Value


@dataclass(frozen=True)
class Source:
    """A study folder with what its study.json says, or single runs given together."""

    name: str
    folders: tuple[Path, ...]
    columns: tuple[str, ...] = ()
    scaling: Scaling | None = None
    planned: int | None = None
    """Number of runs that the study defines; None for single runs."""

    impossible: tuple[str, ...] = ()
    """Reasons why some of its combinations cannot run."""

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Names that the study gives its combinations, by the beginning of their folder names."""

    def label(self, run: StoredRun) -> str | None:
        """The name that the study gives to the combination of this run."""
        return self.labels.get(run.folder.name.rpartition("-turn")[0])


@dataclass(frozen=True)
class Result:
    """One setting: its repeats, its figures, and its comparison with the baseline."""

    source: Source
    runs: tuple[StoredRun, ...]
    scaling: ScalingRow
    case: Comparison
    """The breakdown of its step."""

    line: str
    """The name of its curve: everything that varies except the number of workers."""

    values: Mapping[str, str]
    """The parts of the curve's name, by dimension."""

    settings: Mapping[str, Value]
    """The values of the settings, by dimension."""

    @property
    def record(self) -> Record:
        """The record of the first repeat."""
        return self.runs[0].record

    @cached_property
    def gap(self) -> Gap | None:
        """The gap to ideal; None without a baseline or where the gap is within noise."""
        return self.case.clear_gap

    @property
    def workers(self) -> int:
        return self.record.spec.workers

    @property
    def label(self) -> str:
        """The name of the setting, as in `allreduce · 2 workers`."""
        return " · ".join(part for part in (self.line, count(self.workers, "worker")) if part)

    @property
    def panel(self) -> str:
        """The name of the chart: settings share one if they train one model, regardless of its options."""
        return self.record.spec.workload.partition(":")[0]

    @property
    def unit(self) -> str:
        """The unit of its throughput."""
        return self.record.throughput.unit

    @property
    def conditions(self) -> str:
        """Weak or strong scaling, batch and learning rate, which every figure depends on."""
        batch, learning = self.record.batch, self.record.learning
        scaling = f"{self.scaling.scaling} scaling, " if self.scaling.scaling else ""
        rule = f" (rule {learning.lr_rule})" if learning.lr_rule != "none" else ""
        return f"{scaling}batch {batch} per worker, {batch * self.workers} in total, lr {learning.lr:g}{rule}"


@dataclass(frozen=True)
class Results:
    """Everything the report is about."""

    sources: tuple[Source, ...]
    rows: tuple[Result, ...]
    dimensions: tuple[Dimension, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The names of the studies."""
        return " and ".join(source.name for source in self.sources)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Every curve, in order of appearance."""
        return tuple(dict.fromkeys(row.line for row in self.rows))

    @cached_property
    def panels(self) -> tuple[str, ...]:
        """Every model, in order of appearance."""
        return tuple(dict.fromkeys(row.panel for row in self.rows))

    def of_panel(self, panel: str) -> list[Result]:
        """The settings of one panel."""
        return [row for row in self.rows if row.panel == panel]


@dataclass(frozen=True)
class _Setting:
    """A setting before its curve has a name."""

    source: Source
    scaling: ScalingRow
    runs: tuple[StoredRun, ...]
    case: Comparison


def read(paths: Sequence[Path], *, anyway: bool = False) -> Results:
    """Read all runs; refuse records of different machines unless `anyway`."""
    stored = [(source, find(source.folders)) for source in _sources(paths)]
    runs, differences = of_one_machine([run for _, s in stored for run in s.runs], anyway=anyway)
    left, notes = iter(runs), list(differences)
    settings: list[_Setting] = []
    for source, s in stored:
        own = [next(left) for _ in s.runs]
        notes.extend((*s.notes, *_incomplete(source, own)))
        settings.extend(_settings(source, own))
    divided = {s.source.name for s in settings if (s.source.scaling or s.scaling.scaling) == "strong"}
    places = [
        PlacedRecord(s.source.name, s.source.name in divided, s.runs[0].record, s.source.label(s.runs[0]))
        for s in settings
    ]
    dimensions = dimensions_of(places)
    rows = tuple(_result(s, place, dimensions) for s, place in zip(settings, places, strict=True))
    return Results(tuple(source for source, _ in stored), rows, dimensions, tuple(notes))


def _result(setting: _Setting, place: PlacedRecord, dimensions: Sequence[Dimension]) -> Result:
    values = {dimension.name: dimension.text(place) for dimension in dimensions}
    settings = {dimension.name: dimension.value(place) for dimension in dimensions}
    line = " · ".join(values.values())
    return Result(setting.source, setting.runs, setting.scaling, setting.case, line, values, settings)


def _sources(paths: Sequence[Path]) -> list[Source]:
    """One source per study, and one for all single runs."""
    single = tuple(path for path in paths if not (path / STUDY_NAME).is_file())
    names: dict[str, int] = {}
    sources = []
    for path in dict.fromkeys(path.resolve() for path in paths if path not in single):
        source = _study(path)
        times = names[source.name] = names.get(source.name, 0) + 1
        name = source.name if times == 1 else f"{source.name} ({times})"
        sources.append(dataclasses.replace(source, name=name))
    if single:
        name = single[0].resolve().name if len(single) == 1 and single[0].is_dir() else count(len(single), "run")
        sources.append(Source(name, single))
    return sources


def _study(folder: Path) -> Source:
    """The study as study.json describes it; where that is unreadable, the runs alone."""
    try:
        content = json.loads((folder / STUDY_NAME).read_text())
        cells = content["cells"].values()
        problems = tuple(str(cell["impossible"]) for cell in cells if "impossible" in cell)
        planned = content["repeats"] * (len(cells) - len(problems))
        name, columns = str(content["name"]), tuple(content["columns"])
        labels = {str(key): str(label) for key, label in content.get("labels", {}).items()}
        return Source(name, (folder,), columns, scaling_of(folder), planned, problems, labels)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Source(folder.name, (folder,))


def _incomplete(source: Source, runs: Sequence[StoredRun]) -> Iterator[str]:
    """Notes about runs and files that are missing."""
    if source.planned is not None and len(runs) < source.planned:
        yield (
            f"{source.name}: {len(runs)} of {count(source.planned, 'run')} finished; repeat the same `paceline study` "
            "command to run the rest."
        )
    for problem, times in Counter(source.impossible).items():
        yield f"{source.name}: {count(times, 'combination')} cannot run here: {problem}"
    bare = sum(not (run.folder / SIDECAR_NAME).is_file() for run in runs)
    if bare:
        yield f"{source.name}: {count(bare, 'run')} without {SIDECAR_NAME}: per-step data are missing."


def _settings(source: Source, runs: Sequence[StoredRun]) -> Iterator[_Setting]:
    """The settings of one study with their baselines, in the order of the runs."""
    for case in comparisons(runs, scaling=source.scaling):
        yield _Setting(source, case.scaling, case.setting.runs, case)


def measured(column: Column, result: Result) -> Value:
    """The median over the repeats; None where it was not measured."""
    return column.over(result.scaling.records)

"""From a study to its cells: every combination once, its baseline beside it, and the reason where it cannot run."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from paceline.engines.plan import Plan, plan
from paceline.errors import DeviceError, RequestError
from paceline.feeds import catalogue as feeds
from paceline.grammar import require
from paceline.migrations import strategy_of_schema_1
from paceline.network import Site
from paceline.settings import Baseline, Role, SettingValue
from paceline.spec import BASELINE_STRATEGY, SETTINGS, RunSpec, settings_alone, with_baseline, with_role
from paceline.studies.definition import FIT, Study, slug
from paceline.traffic import catalogue as strategies
from paceline.workloads import catalogue as workloads

_ONE_NODE = Site()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of settings; with repeats, the same runs in several turns."""

    settings: Mapping[str, SettingValue]
    """As asked."""

    key: str
    """Readable, and the same wherever the same settings are asked for."""

    spec: RunSpec | None = None
    """As planned; None where it cannot run."""

    problem: str | None = None
    """Why it cannot run."""

    label: str | None = None
    added: bool = False
    """A baseline that was not asked for."""

    def setting(self, name: str) -> Any:
        """As planned, or, where it cannot run, as asked."""
        return getattr(self.spec, name) if self.spec is not None else self.settings.get(name, SETTINGS[name].default)


@dataclass(frozen=True)
class Run:
    """One cell in one turn."""

    cell: Cell
    spec: RunSpec

    @property
    def key(self) -> str:
        """The name of its folder."""
        return f"{self.cell.key}-turn{self.spec.turn}"


@dataclass(frozen=True)
class Grid:
    """A study spread out."""

    study: Study
    cells: tuple[Cell, ...]

    @property
    def impossible(self) -> list[Cell]:
        """Cells that cannot run."""
        return [cell for cell in self.cells if cell.spec is None]

    def runs_of(self, cell: Cell) -> list[Run]:
        """Its runs, turn by turn; none where it cannot run."""
        return self._runs.get(cell.key, [])

    @functools.cached_property  # a spec is checked whenever one is made, and runs are asked for often
    def _runs(self) -> dict[str, list[Run]]:
        turns = range(self.study.repeats)
        return {
            cell.key: [Run(cell, dataclasses.replace(cell.spec, turn=turn)) for turn in turns]
            for cell in self.cells
            if cell.spec is not None
        }

    def in_turns(self) -> list[Run]:
        """All runs in the order they are made: every setting once, then again.

        Every other turn goes backward, so that a machine that slowly warms up or fills favours nobody.
        """
        turns = list(zip(*self._runs.values(), strict=True))
        return [run for number, turn in enumerate(turns) for run in (turn if number % 2 == 0 else turn[::-1])]


def spread(study: Study, site: Site = _ONE_NODE) -> Grid:
    """All cells of a study, baselines first. Names that nobody knows are refused here."""
    _check_names(study)
    asked = _unique(cells(study, site))
    return Grid(study, (*_missing_baselines(study, asked, site), *asked))


def cells(study: Study, site: Site = _ONE_NODE) -> Iterator[Cell]:
    """The combinations that are asked for, one after the other: a grid may be too large to be spread out."""
    for variant, axes in study.blocks:
        for combination in itertools.product(*axes.values()):
            yield _cell(study, dict(zip(axes, combination, strict=True)), site, label=variant.label)


def _check_names(study: Study) -> None:
    """A name that is misspelt is wrong everywhere, and not a combination that cannot run."""
    for _, axes in study.blocks:
        for name, check in (("workload", workloads.check), ("feed", feeds.check), ("strategy", strategies.check)):
            for text in axes.get(name, ()):
                require(isinstance(text, str), f"{name} = {text!r} is not valid: it must be a word.")
                check(text)


def _unique(cells: Iterable[Cell]) -> list[Cell]:
    return list({cell.key: cell for cell in cells}.values())


def _cell(
    study: Study, settings: Mapping[str, SettingValue], site: Site, *, label: str | None = None, added: bool = False
) -> Cell:
    try:
        planned = _planned(_per_run(study, settings), site)
    except RequestError as error:
        return Cell(settings=settings, key=key_of(settings), problem=str(error), label=label, added=added)
    return Cell(settings=settings, key=key_of(planned.identity), spec=planned.spec, label=label, added=added)


def _per_run(study: Study, settings: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """Settings of one run: the batch per worker, and its length."""
    run = dict(settings)
    workers, batch, steps = run.get("workers", 1), run.get("batch"), run.get("steps")
    if not (_is_count(workers) and (batch is None or _is_count(batch)) and (steps is None or _is_count(steps))):
        return run  # refused where a spec is made of it
    if study.scaling == "strong":
        assert batch is not None, "checked by the study"
        require(
            batch % workers == 0,
            f"batch = {batch} in all cannot be divided among {workers} workers: use a multiple of {workers}.",
        )
        run["batch"] = batch = batch // workers
    if study.equal == "samples":
        assert batch is not None, "checked by the study"
        run["steps"] = steps = _divided("samples", study.samples or 0, batch * workers, "samples an update")
    traffic = strategies.resolve(_strategy(run))
    if study.equal == "updates" and traffic.servers and not traffic.synchronous:
        assert steps is not None, "checked by the study"
        run["steps"] = _divided("steps", steps, workers, "updates a step, one of every worker")
    return run


def _strategy(settings: Mapping[str, SettingValue]) -> str:
    return str(settings.get("strategy", RunSpec.strategy))


def _is_count(value: SettingValue) -> TypeGuard[int]:
    """Whether the value is a number that can be divided, and divided by."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _divided(name: str, whole: int, part: int, what: str) -> int:
    require(whole % part == 0, f"{name} = {whole} cannot be divided by {part} {what}: use a multiple of {part}.")
    return whole // part


def _planned(settings: Mapping[str, SettingValue], site: Site) -> Plan:
    """As it will run on this machine."""
    if settings.get("workers_per_device") != FIT:
        return plan(RunSpec.from_dict(settings), site)
    workers = settings.get("workers", 1)
    for shared in (k for k in range(1, workers) if workers % k == 0) if _is_count(workers) else ():
        with contextlib.suppress(DeviceError):
            return plan(RunSpec.from_dict({**settings, "workers_per_device": shared}), site)
    # All on one device; or they are no number, which a spec refuses.
    alone = workers if _is_count(workers) else 1
    return plan(RunSpec.from_dict({**settings, "workers_per_device": alone}), site)


def _missing_baselines(study: Study, asked: list[Cell], site: Site) -> list[Cell]:
    """One worker alone for everything that will be compared with it, unless it was asked for."""
    there = {_shared(cell.spec) for cell in asked if cell.spec is not None and _is_alone(cell.spec)}
    missing: dict[tuple[Any, ...], Cell] = {}
    labels: dict[tuple[Any, ...], list[str]] = {}
    known: dict[str, Cell] = {}
    for cell in asked:
        if cell.spec is None:
            continue
        alone = {**cell.settings, **settings_alone()}
        written = json.dumps(alone, sort_keys=True)
        baseline = known.setdefault(written, known.get(written) or _cell(study, alone, site, added=True))
        shared = _shared(baseline.spec) if baseline.spec is not None else (baseline.key,)
        if shared in there:
            continue
        missing.setdefault(shared, baseline)
        if cell.label is not None and cell.label not in labels.setdefault(shared, []):
            labels[shared].append(cell.label)
    named = {shared: f"baseline of {', '.join(names)}" for shared, names in labels.items()}
    return [dataclasses.replace(cell, label=named.get(shared)) for shared, cell in missing.items()]


def _is_alone(spec: RunSpec) -> bool:
    return spec.workers == 1 and spec.strategy == BASELINE_STRATEGY


def _shared(spec: RunSpec) -> tuple[Any, ...]:
    """What runs share that are compared with the same baseline."""
    return tuple(getattr(spec, name) for name in with_baseline(Baseline.SAME, Baseline.PREFERRED))


def key_of(settings: Mapping[str, SettingValue]) -> str:
    """`vae-allreduce-2w-1f0c…`: words for people, and a digest of all settings that are not the defaults.

    Strategies are spelled as schema 1 did, so that the finished runs of an earlier version are found.
    """
    strategy = strategy_of_schema_1(_strategy(settings))
    identity = with_role(Role.IDENTITY)
    spelled = {**settings, "strategy": strategy}
    given = {k: _plain(v) for k, v in spelled.items() if k in identity and v != SETTINGS[k].default}
    digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:12]
    words = (slug(settings.get("workload")), slug(strategy), f"{settings.get('workers', 1)}w", digest)
    return "-".join(words)


def _plain(value: Any) -> Any:
    """5 and 5.0 are the same setting."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def differing(cells: Iterable[Cell]) -> list[str]:
    """Settings that are not the same in all cells: as asked, or as planned where they can run."""
    everything = list(cells)
    planned = [cell.spec for cell in everything if cell.spec is not None]
    asked = [cell.settings for cell in everything if not cell.added]

    def differs(name: str) -> bool:
        values = {json.dumps(getattr(spec, name)) for spec in planned}
        return len(values) > 1 or len({json.dumps(settings.get(name)) for settings in asked}) > 1

    return [name for name in SETTINGS if differs(name)]

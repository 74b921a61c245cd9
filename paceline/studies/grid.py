"""From a study to its cells: every combination once, with its baseline, and the reason if it cannot run."""

import bisect
import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from paceline.engines.plan import plan
from paceline.errors import DeviceError, RequestError
from paceline.feeds import catalogue as feeds
from paceline.grammar import require
from paceline.migrations import strategy_of_schema_1
from paceline.network import Site
from paceline.settings import Baseline, Role, SettingValue
from paceline.spec import SETTINGS, RunSpec, with_baseline, with_role
from paceline.studies.definition import FIT, Axes, Study, Variant, slug
from paceline.traffic import catalogue as strategies
from paceline.workloads import catalogue as workloads

_ONE_NODE = Site()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of settings; with repeats, the same runs in several turns."""

    settings: Mapping[str, SettingValue]
    """The requested settings."""

    key: str
    """A readable key; the same settings always have the same key."""

    spec: RunSpec | None = None
    """The planned run; None if it cannot run."""

    problem: str | None = None
    """The reason why it cannot run."""

    label: str | None = None
    added: bool = False
    """Whether it is a baseline that the study did not request."""

    def setting(self, name: str) -> Any:
        """The planned value, or the requested one if the cell cannot run."""
        return getattr(self.spec, name) if self.spec is not None else self.settings.get(name, SETTINGS[name].default)


@dataclass(frozen=True)
class Run:
    """One cell in one turn."""

    cell: Cell
    spec: RunSpec

    @property
    def key(self) -> str:
        """The name of the run's folder."""
        return f"{self.cell.key}-turn{self.spec.turn}"


@dataclass(frozen=True)
class Grid:
    """A study expanded into cells."""

    study: Study
    cells: tuple[Cell, ...]

    @property
    def impossible(self) -> list[Cell]:
        """Cells that cannot run."""
        return [cell for cell in self.cells if cell.spec is None]

    def runs_of(self, cell: Cell) -> list[Run]:
        """The runs of a cell, turn by turn; empty if it cannot run."""
        return self._runs.get(cell.key, [])

    @functools.cached_property  # creating a spec validates it, and runs are requested often
    def _runs(self) -> dict[str, list[Run]]:
        turns = range(self.study.repeats)
        return {
            cell.key: [Run(cell, dataclasses.replace(cell.spec, turn=turn)) for turn in turns]
            for cell in self.cells
            if cell.spec is not None
        }

    def in_turns(self) -> list[Run]:
        """All runs in order of execution: every setting once, then again, each turn in an order of its own."""
        turns = list(zip(*self._runs.values(), strict=True))
        orders = (order_of_turn(list(self._runs), number) for number in range(len(turns)))
        return [turn[place] for turn, order in zip(turns, orders, strict=True) for place in order]

    def refusing(self, problem: Callable[[RunSpec], str | None], finished: Container[str]) -> "Grid":
        """The grid with the reason in every cell that has a problem and runs that are not finished."""

        def checked(cell: Cell) -> Cell:
            if cell.spec is None or all(run.key in finished for run in self.runs_of(cell)):
                return cell
            why = problem(cell.spec)
            return cell if why is None else dataclasses.replace(cell, spec=None, problem=why)

        return Grid(self.study, tuple(map(checked, self.cells)))


def order_of_turn(keys: Sequence[str], turn: int) -> list[int]:
    """The order of settings in a turn: as listed in the first one, then shuffled, always in the same way.

    The pace of a machine at one moment resembles its pace a moment later. In an order that repeats or reverses, some
    settings would always be close in time and others never, and intervals would promise too much.
    """
    places = range(len(keys))
    if turn == 0:
        return list(places)
    return sorted(places, key=lambda place: hashlib.sha256(f"{turn} {keys[place]}".encode()).digest())


def spread(study: Study, site: Site = _ONE_NODE) -> Grid:
    """All cells of a study, baselines first; refuses unknown names."""
    _check_names(study)
    asked = _unique(cells(study, site))
    return Grid(study, (*_missing_baselines(study, asked, site), *asked))


def cells(study: Study, site: Site = _ONE_NODE) -> Iterator[Cell]:
    """The requested combinations as an iterator: a grid may be too large to expand."""
    taken: dict[str, int] = {}
    for number, (variant, axes) in enumerate(study.blocks):
        fit = _Fit(axes, site)
        for combination in itertools.product(*axes.values()):
            settings = dict(zip(axes, combination, strict=True))
            cell = _cell(study, settings, site, fit=fit, label=variant.label)
            if taken.setdefault(cell.key, number) != number:  # equal to an earlier variant, and told apart by its name
                _check_label(study, variant, number)
                named = {**settings, "variant": variant.label or f"variant {number + 1}"}
                cell = _cell(study, named, site, fit=fit, label=variant.label)
            yield cell


def _check_label(study: Study, variant: Variant, number: int) -> None:
    others = [other.label for other in study.variants[:number]]
    require(
        variant.label is None or variant.label not in others,
        f"Two variants are called {variant.label!r} and have equal settings: give each a label of its own.",
    )


def _check_names(study: Study) -> None:
    """Refuse misspelt names at once: they are mistakes, not combinations that cannot run."""
    for _, axes in study.blocks:
        for name, check in (("workload", workloads.check), ("feed", feeds.check), ("strategy", strategies.check)):
            for text in axes.get(name, ()):
                require(isinstance(text, str), f"{name} = {text!r} is not valid: it must be a word.")
                check(text)


def _unique(cells: Iterable[Cell]) -> list[Cell]:
    return list({cell.key: cell for cell in cells}.values())


def _cell(
    study: Study,
    settings: Mapping[str, SettingValue],
    site: Site,
    *,
    fit: "_Fit | None" = None,
    label: str | None = None,
    added: bool = False,
) -> Cell:
    try:
        asked = _per_run(study, settings)
        planned = plan(RunSpec.from_dict(fit.placed(asked) if fit is not None else asked), site)
    except RequestError as error:
        return Cell(settings=settings, key=key_of(settings), problem=str(error), label=label, added=added)
    return Cell(settings=settings, key=key_of(planned.identity), spec=planned.spec, label=label, added=added)


def _per_run(study: Study, settings: Mapping[str, SettingValue]) -> dict[str, SettingValue]:
    """Settings of one run: the batch per worker, and its length. Runs of a study validate only on request."""
    run = {"validate": "off", **settings}
    workers, batch, steps = run.get("workers", 1), run.get("batch"), run.get("steps")
    if not (_is_count(workers) and (batch is None or _is_count(batch)) and (steps is None or _is_count(steps))):
        return run  # the spec refuses it
    if study.scaling == "strong":
        assert batch is not None, "checked by the study"
        require(
            batch % workers == 0,
            f"batch = {batch} in total cannot be divided among {workers} workers: use a multiple of {workers}.",
        )
        run["batch"] = batch = batch // workers
    if study.equal == "samples":
        assert batch is not None, "checked by the study"
        run["steps"] = steps = _divided("samples", study.samples or 0, batch * workers, "samples per update")
    traffic = strategies.resolve(_strategy(run))
    if study.equal == "updates" and traffic.servers and not traffic.synchronous:
        assert steps is not None, "checked by the study"
        run["steps"] = _divided("steps", steps, workers, "updates per step, one of every worker")
    return run


def _strategy(settings: Mapping[str, SettingValue]) -> str:
    return str(settings.get("strategy", RunSpec.strategy))


def _is_count(value: SettingValue) -> TypeGuard[int]:
    """Whether the value is a positive whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _divided(name: str, whole: int, part: int, what: str) -> int:
    require(whole % part == 0, f"{name} = {whole} cannot be divided by {part} {what}: use a multiple of {part}.")
    return whole // part


class _Fit:
    """`workers_per_device = "fit"` in one block of a study.

    All points of a curve share one rule: up to a number of devices every worker has its own, and beyond it all of
    these devices hold equally many workers. Otherwise a curve would mix counts of devices.
    """

    def __init__(self, axes: Axes, site: Site) -> None:
        self._site = site
        self._counts = sorted(count for count in set(axes.get("workers", (1,))) if _is_count(count))
        self._devices: dict[str, int] = {}

    def placed(self, settings: Mapping[str, SettingValue]) -> Mapping[str, SettingValue]:
        """The settings with a number of workers per device instead of `fit`; refused where they cannot be even."""
        if settings.get("workers_per_device") != FIT:
            return settings
        workers, each = settings.get("workers", 1), 1
        if _is_count(workers):  # otherwise the spec refuses it
            curve = json.dumps({**settings, "workers": None}, sort_keys=True)
            devices = self._devices.get(curve) or self._devices.setdefault(curve, self._devices_of(settings))
            each = -(-workers // devices)
            require(
                each == 1 or workers % devices == 0,
                f"--workers {workers} cannot be divided evenly among the {devices} devices that --workers-per-device "
                f"fit has here: use {devices * (each - 1)} or {devices * each} workers, or give the number of workers "
                "per device yourself.",
            )
        return {**settings, "workers_per_device": each}

    def _devices_of(self, settings: Mapping[str, SettingValue]) -> int:
        """All devices; or fewer, where every count that exceeds them divides evenly and no other count needs them."""
        counts = range(1, max(self._counts, default=1) + 1)
        available = max(1, bisect.bisect_left(counts, True, key=lambda count: not self._fits(settings, count)))
        even = (
            d for d in range(available, 1, -1) if all(w <= d or (w > available and w % d == 0) for w in self._counts)
        )
        return next(even, available)

    def _fits(self, settings: Mapping[str, SettingValue], workers: int) -> bool:
        """Whether this many workers find a device each; a request that is wrong in another way is refused later."""
        try:
            plan(RunSpec.from_dict({**settings, "workers": workers, "workers_per_device": 1}), self._site)
        except DeviceError:
            return False
        except RequestError:
            return True
        return True


def _missing_baselines(study: Study, asked: list[Cell], site: Site) -> list[Cell]:
    """Add one worker alone as the baseline of every comparison, unless the study has it."""
    there = {_shared(cell.spec) for cell in asked if cell.spec is not None and cell.spec.is_alone}
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


def settings_alone() -> dict[str, SettingValue]:
    """The settings of one worker alone on one device, which replace a run's own."""
    return {name: SETTINGS[name].alone for name in with_baseline(Baseline.ALONE, Baseline.UNUSED)}


def _shared(spec: RunSpec) -> tuple[Any, ...]:
    """The settings that runs with the same baseline share."""
    return tuple(getattr(spec, name) for name in with_baseline(Baseline.SAME, Baseline.PREFERRED))


def key_of(settings: Mapping[str, SettingValue]) -> str:
    """`vae-allreduce-2w-1f0c…`: readable words, and a digest of all settings that differ from the defaults.

    Strategies are spelled as in schema 1, so that finished runs of earlier versions are found.
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
    """Settings that differ between cells: planned values, or requested ones of cells that cannot run."""
    everything = list(cells)
    planned = [cell.spec for cell in everything if cell.spec is not None]
    asked = [cell.settings for cell in everything if not cell.added]

    def differs(name: str) -> bool:
        values = {json.dumps(getattr(spec, name)) for spec in planned}
        return len(values) > 1 or len({json.dumps(settings.get(name)) for settings in asked}) > 1

    return [name for name in SETTINGS if differs(name)]

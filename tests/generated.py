"""Studies and tables that no one would think of: any valid grid, with any figures that a record can hold."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explain.situations import USUAL, Situation, write
from hypothesis import reject
from hypothesis import strategies as some
from hypothesis.strategies import DrawFn

from paceline.errors import RequestError, RunError
from paceline.network import Site
from paceline.record_parts import PHASES
from paceline.studies.definition import make_study
from paceline.studies.grid import Grid, Run, spread
from paceline.studies.store import Store
from paceline.traffic import catalogue

_ODD = (":boom:", "[bold]b[/bold]", "[/]", "größe × 2", "训练", "🚀 run", "a|b", "<b>&amp;", "x" * 90)
NAMES = some.sampled_from(("a", "plain name", *_ODD))
"""What a user may call a study, a variant, a host or data."""

RATES = some.floats(-9, 12).map(lambda power: float(10**power))
_STRATEGIES = ("independent", "allreduce", "allreduce:overlap=off", "bf16+allreduce", "ps", "ps:mode=async")
_MORE_STRATEGIES = ("ps:servers=2", "fp16+allreduce", "bf16+ps", "allreduce:packs=2")
_TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in forward\nValueError: [red] :boom:'
_LOSSES = some.none() | some.floats(-1e6, 1e12) | some.floats(0.1, 5)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one run of a study went."""

    state: str
    """`done`, `failed` or `missing`."""

    situation: Situation
    series: bool

    def put(self, store: Store, run: Run) -> None:
        """Leave in the study's folder what such a run leaves there."""
        if self.state == "failed":
            store.note_failure(run, RunError(f"Worker 1 failed in step 3: ValueError\n{_TRACEBACK}"))
        elif self.state == "done":
            write(store.folder_of(run), self.situation, series=self.series)


@dataclass(frozen=True, kw_only=True)
class GeneratedStudy:
    """A study, and how each of its runs went."""

    grid: Grid
    outcomes: Mapping[str, Outcome]
    """By the key of the run."""

    def put(self, folder: Path) -> Store:
        """The folder as `paceline study` leaves it."""
        store = Store(folder)
        with store.opened(self.grid):
            for run in self.grid.in_turns():
                self.outcomes[run.key].put(store, run)
        return store


@some.composite
def studies(draw: DrawFn) -> GeneratedStudy:
    """Any grid of a few settings; a baseline may be missing because its run failed."""
    grid = draw(grids())
    usual = draw(_usual())
    return GeneratedStudy(grid=grid, outcomes={run.key: draw(_outcomes(run, usual)) for run in grid.in_turns()})


@some.composite
def grids(draw: DrawFn) -> Grid:
    """Weak or strong, on one node or several, real or emulated devices, with or without named variants."""
    nodes = draw(some.sampled_from((1, 1, 1, 2, 4)))
    emulated = nodes > 1 or draw(some.integers(0, 3)) == 0
    table: dict[str, Any] = {
        "name": draw(NAMES.map(lambda name: f"s {name}")),
        "workload": "vae",
        "workers": draw(some.lists(some.sampled_from((1, 2, 3, 4, 8)), min_size=1, max_size=3, unique=True)),
        "workers_per_device": "fit",
        "batch": draw(some.sampled_from((24, 8 * 3 * 1000, 24 * 10**8))),
        "steps": 20,
        "repeats": draw(some.integers(1, 3)),
        "scaling": draw(some.sampled_from(("weak", "weak", "strong"))),
        "columns": draw(some.lists(some.sampled_from(("time", "sent", "ideal", "no such")), unique=True)),
    }
    if not emulated and draw(some.booleans()):
        table |= {"validate": "end", "columns": ["val_loss", *table["columns"]]}
    if emulated:
        table |= {"device": "emulated:rate=500", "slow_motion": draw(some.sampled_from(([1], [1, 2])))}
    if nodes > 1:
        table |= {"nodes": nodes}
    chosen = some.sampled_from((*_STRATEGIES, *_MORE_STRATEGIES))
    strategies = draw(some.lists(chosen, min_size=1, max_size=3, unique=True))
    if draw(some.booleans()):
        labels = draw(some.lists(NAMES, min_size=len(strategies), max_size=len(strategies), unique=True))
        pairs = zip(labels, strategies, strict=True)
        table["variant"] = [{"label": label, "strategy": strategy} for label, strategy in pairs]
    else:
        table["strategy"] = strategies
    try:
        return spread(make_study(table), Site(nodes, "1Gbps", delays=True) if nodes > 1 else Site())
    except RequestError:  # a refusal is an answer, too: tests/studies have those
        reject()


@some.composite
def _usual(draw: DrawFn) -> float:
    """How many times slower than usual all runs of a study are; steps of microseconds, or of years."""
    return float(10 ** draw(some.sampled_from((0, 0, 0, -3, 4, 9)) | some.floats(-4, 9)))


@some.composite
def _outcomes(draw: DrawFn, run: Run, usual: float) -> Outcome:
    state = draw(some.sampled_from(("done",) * 8 + ("failed", "missing")))
    situation = draw(_situations(run, usual)) if state == "done" else Situation()
    return Outcome(state=state, situation=situation, series=draw(some.integers(0, 4)) > 0)


@some.composite
def _situations(draw: DrawFn, run: Run, usual: float) -> Situation:
    """A run whose parts fit together, except for its throughput, which may be any positive figure."""
    spec = run.spec
    factor = usual * draw(some.sampled_from((1.0, 1.0, 1.0, 0.2, 30.0)) | some.floats(0.5, 2.0))
    traffic = catalogue.resolve(spec.strategy)
    steps = draw(some.sampled_from((20, 20, 1, 2, 7)))
    batch = spec.batch or 1
    record: dict[str, Any] = {
        "learning": draw(_learning(run, steps)),
        "failures": draw(some.sampled_from(((), (), (), (f"Worker 1 failed: {_TRACEBACK}",)))),
        "warnings": draw(some.lists(NAMES, max_size=1)),
    }
    rate = sum(USUAL.values())
    value = batch * spec.workers / (rate * factor)
    record["throughput"] = draw(_throughputs(value))
    if spec.device.startswith("emulated"):
        record["emulation"] = {
            "devices": [{"node": node, "device": spec.device, "source": draw(NAMES)} for node in range(spec.nodes)],
            "slow_motion": spec.slow_motion,
            "host_limits": draw(some.sampled_from(((), (), ("The host's cores were busy.",)))),
            "overrun_percent": draw(some.floats(0, 1e4)),
        }
    buckets = draw(some.sampled_from(((), (4_000_000, 1_000_000), (1,)))) if traffic.exchanges else ()
    return Situation(
        workers=spec.workers,
        steps=steps,
        phases={name: seconds * factor for name, seconds in USUAL.items()},
        longer=draw(_stragglers(spec.workers, factor)),
        noise=draw(some.sampled_from((0.0, 0.001, 0.1))) * factor,
        buckets=buckets,
        bandwidth=draw(some.sampled_from((4e8, 1e3, 1e12))),
        outside_percent=draw(some.sampled_from((0.0, 80.0))),
        servers=[{"server": n, "node": 0, "device": f"cpu:{n}"} for n in range(traffic.servers)],
        spec=spec.to_dict(),
        environment={"processor": "any"},
        record=record,
        samples=batch,
        seed=draw(some.integers(0, 3)),
    )


@some.composite
def _stragglers(draw: DrawFn, workers: int, factor: float) -> dict[int, dict[str, float]]:
    phase = draw(some.sampled_from([name for name in PHASES if name in USUAL]))
    longer = draw(some.sampled_from((0.0, 0.0, 0.02, 1.0)))
    return {draw(some.integers(0, workers - 1)): {phase: longer * factor}} if longer else {}


@some.composite
def _throughputs(draw: DrawFn, consistent: float) -> dict[str, Any]:
    """The rate that follows from the steps, or another; with a narrow, a vague, an absurd or no interval."""
    value = draw(some.just(consistent) | some.floats(0.9, 1.1).map(lambda part: consistent * part) | RATES)
    spread_of = draw(some.sampled_from((None, None, 1.0, 1.02, 1.3, 2.5, 1e3, 1e21)))
    low, high = (None, None) if spread_of is None else (value / spread_of, value * spread_of)
    return {
        "value": value,
        "low": low,
        "high": high,
        "unit": draw(some.sampled_from(("images/s", "images/s", "µ[b]/s"))),
    }


@some.composite
def _learning(draw: DrawFn, run: Run, steps: int) -> dict[str, Any]:
    losses = draw(some.lists(_LOSSES, min_size=steps, max_size=steps))
    seen = steps * (run.spec.batch or 1) * run.spec.workers
    last = draw(_LOSSES)
    check = {"epoch": 1.0, "step": steps, "samples": seen, "loss": last, "metrics": {"accuracy": draw(_LOSSES)}}
    validated = draw(some.booleans())
    return {
        "loss": losses,
        "validation": [check] if validated else [],
        "val_loss": last if validated else None,
        "updates": steps,
        "samples_seen": seen,
        "global_batch": (run.spec.batch or 1) * run.spec.workers,
        "lr": run.spec.lr or 0.1,
    }


_HEADINGS = ("workers", "gpus", "devices", "throughput", "images/s", "speedup", "efficiency (%)", "seconds", "nodes")
_ODD_HEADINGS = ("batch", "step time (ms)", "model", "loss", "_step", "", "notes", "training time", "ideal", "%")
_CELLS = some.one_of(
    some.integers(-1, 10**6).map(str),
    RATES.map(lambda rate: f"{rate:g}"),
    some.sampled_from(
        ("", "-", "n/a", "nan", "inf", "1,234.5", "3,5", "97 %", "1.9x", "219 img/s", "2m10s", "ResNet-50")
    ),
    some.text(string.printable, max_size=6),
)


@some.composite
def tables(draw: DrawFn) -> str:
    """A table of measurements as people keep them: sound ones, and with odd columns and cells."""
    return draw(_sound_tables() | _odd_tables())


@some.composite
def _sound_tables(draw: DrawFn) -> str:
    """Counts of workers with a rate each, that scales well, badly or not at all."""
    counts = sorted(draw(some.lists(some.integers(1, 512), min_size=1, max_size=7, unique=True)))
    alone = draw(RATES)
    rates = [alone * draw(some.floats(0.05, 1.3)) * n for n in counts]
    rows = [f"{n},{rate:.6g}" for n, rate in zip(counts, rates, strict=True)]
    return "\n".join(("workers,images/s", *rows)) + "\n"


@some.composite
def _odd_tables(draw: DrawFn) -> str:
    sign = draw(some.sampled_from(",;\t|"))
    headings = draw(some.lists(some.sampled_from(_HEADINGS + _ODD_HEADINGS), min_size=1, max_size=5))
    row = some.lists(_CELLS, min_size=len(headings), max_size=len(headings)).map(sign.join)
    return "\n".join((sign.join(headings), *draw(some.lists(row, max_size=6)))) + "\n"

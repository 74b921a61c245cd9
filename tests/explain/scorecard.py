"""Injected situations with the causes that are expected of each, and whether `explain` is right, declines or is wrong.

A new situation is one entry in `SITUATIONS`. Where a run needs more than a workload with faults, give it an `around`: a
context manager that is entered for the time of the run. With `to_links`, every worker has a node of a testbed, and
after some steps something happens to its links.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
from slowed import Fault
from testbed.faults import AtStep, cut_link_of, slow_link_of

from paceline.engines.base import NoDisplay
from paceline.engines.local import LocalEngine
from paceline.engines.plan import Plan, plan, site_settings
from paceline.errors import Hang
from paceline.explain.data import as_data
from paceline.explain.verdict import account
from paceline.measure.links import PAYLOAD_SHARE
from paceline.measure.runs import StoredRun, find
from paceline.spec import RunSpec
from paceline.testbed.hosts import Testbed, site

_WITHIN_LOADED = 0.4

Result = Literal["right", "declined", "wrong"]

STANDS_OUT = 0.1
"""Share of a step; what `explain` says of less is no verdict, and is not judged."""

_SHOWN = 5
"""The verdict, and as many further causes as `explain` prints."""

_CORE_SECONDS = 0.024
"""CPU time of a step that all workers of a core share; a step is then longer than the 20 ms from which all are read."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A cause that `explain` must name."""

    name: str
    advice: str
    """A regular expression that its remedy must match."""

    ranks: tuple[int, ...] | None = None
    """The workers that may be named; None: nobody."""

    seconds: Callable[[StoredRun], float | None] = lambda run: None
    """What it costs per step, by what was injected; None where only the machine decides it."""

    within: float = 0.2
    """Relative error allowed; 3 ms are allowed in any case. Where the cores are loaded, it is 0.4."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A workload with faults, what to do around the run, and what must be said of it."""

    name: str
    faults: tuple[Fault, ...] = ()
    expected: Callable[[int, tuple[Fault, ...]], Sequence[Expected]] = lambda workers, faults: ()
    steps: int = 48
    width: int = 0
    around: Callable[[Plan], AbstractContextManager[None]] = lambda plan: nullcontext()
    baseline: bool = False
    """Whether one worker is measured, too, with the same faults."""

    to_links: Callable[[Testbed], None] | None = None
    hang: str = ""
    """A run that ends with an error: what its message must match."""

    also: frozenset[str] = frozenset()
    """Causes that are true here, and need not be named."""


@dataclass(frozen=True)
class Verdict:
    """What `explain` said of one run, judged."""

    result: Result
    reason: str
    said: str
    stolen: float = 0.0
    """Share of the cores' time that other machines of the host had meanwhile."""


def injected(run: StoredRun, fault: Fault, rank: int) -> np.ndarray:
    """Seconds that a fault adds to a worker's own time before each timed arrival."""
    after = fault.where in ("optimizer", "exchange")  # the step before
    steps = range(run.timed.start - after, run.timed.stop - after)
    return np.array([fault.seconds * fault.hits(step, rank) for step in steps])


def true_loss(fault: Fault) -> Callable[[StoredRun], float]:
    """What the fault costs per timed step on average, from the moments at which workers arrived.

    A fault of all workers costs what it adds. One of a single worker costs what the last arrival would be earlier
    without it. Where it hits every step, it costs what it adds; where two workers share a core, the other one computes
    meanwhile, so the truth is how much later the worker arrived than the mean of the others.
    """

    def seconds(run: StoredRun) -> float:
        if fault.rank == "all":
            return float(injected(run, fault, 0).mean())
        rank = int(fault.rank)
        added = injected(run, fault, rank)
        assert run.series is not None
        arrivals = np.array([worker.arrival[run.timed] for worker in run.series])
        without = arrivals.copy()
        without[rank] -= added
        if fault.every > 1 or fault.chance < 1:
            return float((arrivals.max(axis=0) - without.max(axis=0)).mean())
        others = np.delete(arrivals, rank, axis=0)
        return float(added.mean() if len(others) == 1 else (arrivals[rank] - others.mean(axis=0)).mean())

    return seconds


def cause(name: str, advice: str, *, place: int = 0) -> Callable[..., Expected]:
    """Expect this of the fault at `place`: of its worker or, where it hits all, of nobody."""

    def expected(faults: tuple[Fault, ...]) -> Expected:
        fault = faults[place]
        ranks = None if fault.rank == "all" else (int(fault.rank),)
        return Expected(name=name, advice=advice, ranks=ranks, seconds=true_loss(fault))

    return expected


def causes(*several: Callable[..., Expected]) -> Callable[[int, tuple[Fault, ...]], Sequence[Expected]]:
    """All of these, for any number of workers."""
    return lambda workers, faults: [one(faults) for one in several]


@contextlib.contextmanager
def busy_cores(cores: Sequence[int]) -> Iterator[None]:
    """Another process burns each of these cores."""
    burn = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile os.getppid() == int(sys.argv[2]): pass"
    command = [sys.executable, "-c", burn]
    # Ctrl-C ends the run and not these; they end with this process.
    processes = [subprocess.Popen([*command, str(c), str(os.getpid())], start_new_session=True) for c in cores]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _busy_last_core(plan: Plan) -> AbstractContextManager[None]:
    return busy_cores(plan.placement.workers[-1].cores)


def _of_busy_core(workers: int, _: tuple[Fault, ...]) -> Sequence[Expected]:
    """The workers of the last core are late: they get half of it, or a third where the cores are loaded anyway."""
    ranks = tuple(range(workers // 2, workers))

    def seconds(run: StoredRun) -> float:
        """By the moments of arrival: the latest worker against the mean of the other core's."""
        assert run.series is not None
        arrivals = np.array([worker.arrival[run.timed] for worker in run.series])
        return max(float((arrivals[rank] - arrivals[: workers // 2].mean(axis=0)).mean()) for rank in ranks)

    return [
        Expected(name="straggler", advice=r"Stop other processes on cpu:1", ranks=ranks, seconds=seconds, within=0.3)
    ]


def _of_large_gradients(workers: int, _: tuple[Fault, ...]) -> Sequence[Expected]:
    return [Expected(name="exchange", advice=r"--strategy|--accumulate")]


_LINK, _SLOWED = 100e6, 20e6
"""Bits per second of the links of a testbed, and of one that is slowed."""


def _of_slow_link(workers: int, _: tuple[Fault, ...]) -> Sequence[Expected]:
    """Each worker's bytes take five times as long by the slowed link, and all wait for it."""

    def seconds(run: StoredRun) -> float:
        sent = run.record.traffic.sent_bytes_per_worker_and_step / PAYLOAD_SHARE
        return 8 * sent * (1 / _SLOWED - 1 / _LINK)

    return [Expected(name="slow link", advice=r"the link of n1\b", seconds=seconds, within=0.3)]


def _fault(where: str, seconds: float, rank: str = "all", **changes: Any) -> Fault:
    return Fault(where=where, seconds=seconds, rank=rank, **changes)


_LONG = 96

SITUATIONS: tuple[Situation, ...] = (
    Situation(name="nothing at all"),
    *(
        Situation(name=f"{where}, one worker, every step", faults=(_fault(where, 0.04, "1"),),
                  expected=causes(cause("straggler", advice)))
        for where, advice in (
            ("forward", "forward of worker 1 "), ("backward", "backward of worker 1 "),
            ("optimizer", "optimizer of worker 1 "), ("input", "input of worker 1 .*--feed"),
            ("exchange", "link of worker 1 "),
        )
    ),
    *(
        Situation(name=f"{where}, all workers, every step", faults=(_fault(where, 0.04),),
                  expected=causes(cause(name, advice)))
        for where, name, advice in (
            ("forward", "blocked", "what forward waits for"), ("backward", "blocked", "what backward waits for"),
            ("optimizer", "update", "what the optimizer waits for"), ("input", "input", "--feed"),
            ("exchange", "exchange", "--batch|--strategy"),
        )
    ),
    *(
        Situation(name=f"{where}, one worker, every 4th step", faults=(_fault(where, 0.08, "1", every=4),),
                  expected=causes(cause("intermittent straggler", advice)))
        for where, advice in (
            ("forward", "forward of worker 1 "), ("backward", "backward of worker 1 "),
            ("optimizer", "optimizer of worker 1 "), ("input", "input of worker 1 "),
        )
    ),
    Situation(name="forward, all workers, every 8th step", faults=(_fault("forward", 0.16, every=8),),
              expected=causes(cause("pauses", "forward does then on every worker")), steps=_LONG),
    Situation(name="input, all workers, every 8th step", faults=(_fault("input", 0.16, every=8),),
              expected=causes(cause("pauses", "--feed")), steps=_LONG),
    Situation(name="exchange, all workers, every 8th step", faults=(_fault("exchange", 0.16, every=8),),
              expected=causes(cause("pauses", "network")), steps=_LONG),
    Situation(name="backward, one worker, 5 % of the steps", faults=(_fault("backward", 0.5, "1", chance=0.05),),
              expected=causes(cause("intermittent straggler", "backward of worker 1 ")), steps=_LONG),
    Situation(name="optimizer, all workers, 5 % of the steps", faults=(_fault("optimizer", 0.5, chance=0.05),),
              expected=causes(cause("pauses", "optimizer does then on every worker")), steps=_LONG),
    Situation(name="a busy core", around=_busy_last_core, expected=_of_busy_core),
    Situation(name="large gradients", width=3_000_000, expected=_of_large_gradients,
              also=frozenset({"update", "blocked", "spread"})),  # large buffers are mapped anew in some steps only
    Situation(name="a slow link", width=100_000, to_links=lambda made: slow_link_of(made, 1, _SLOWED),
              expected=_of_slow_link, steps=32, also=frozenset({"exchange"})),
    Situation(name="a cut link", width=100_000, to_links=lambda made: cut_link_of(made, 1), steps=100_000,
              hang=r"The link of n1 carried nothing for \d+ s: it is cut\."),
    Situation(
        name="two: slow input of all, backward of one worker",
        faults=(_fault("input", 0.03), _fault("backward", 0.05, "1")),
        expected=causes(cause("input", "--feed"), cause("straggler", "backward of worker 1 ", place=1)),
    ),
    Situation(
        name="two: optimizer of all, one worker's forward every 4th step",
        faults=(_fault("optimizer", 0.03), _fault("forward", 0.12, "1", every=4)),
        expected=causes(
            cause("update", "what the optimizer waits for"),
            cause("intermittent straggler", "forward of worker 1 ", place=1),
        ),
    ),
    Situation(
        name="three: input and exchange of all, backward of one worker",
        faults=(_fault("input", 0.03), _fault("exchange", 0.04), _fault("backward", 0.05, "1")),
        expected=causes(
            cause("input", "--feed"),
            cause("exchange", "--batch|--strategy", place=1),
            cause("straggler", "backward of worker 1 ", place=2),
        ),
    ),
    Situation(name="backward of one worker, with a baseline", baseline=True, faults=(_fault("backward", 0.05, "1"),),
              expected=causes(cause("straggler", "backward of worker 1 "))),
    Situation(name="optimizer of all, in the baseline too", baseline=True, faults=(_fault("optimizer", 0.04),)),
)  # fmt: skip
"""What is injected."""

_AT_STEP = 3
_TIMEOUT = 4.0
"""Seconds without progress after which a run on links is ended."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of a situation."""

    situation: Situation
    workers: int
    repeat: int = 0
    loaded: bool = False
    """Whether other processes use the cores during the run."""

    def verdict(self) -> Verdict:
        """Run it, explain it, and judge what was said."""
        before = psutil.cpu_times()
        judged = self._verdict()
        after = psutil.cpu_times()
        return replace(judged, stolen=(after.steal - before.steal) / (sum(after) - sum(before)))

    def _verdict(self) -> Verdict:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            faults = tuple(replace(fault, seed=self.repeat) for fault in self.situation.faults)
            try:
                self._run(folder / "run", faults, self.workers)
            except Hang as hang:
                return self._judge_hang(str(hang))
            if self.situation.baseline:
                self._run(folder / "baseline", faults, 1)
            explained = account(find(sorted(folder.iterdir(), reverse=True)))
            told = as_data(explained)
            (run,) = find([folder / "run"]).runs
            expected = self._expected(run, faults)
        settings = told.get("settings", [told])
        last = next(one for one in settings if len(one["per_worker"]) == self.workers)
        return self.judge(last, expected)

    def _judge_hang(self, said: str) -> Verdict:
        first = said.splitlines()[0]
        if self.situation.hang and re.match(self.situation.hang, first):
            return Verdict("right", "", said)
        blames = "worker" in first.lower() or "link" in first
        return Verdict("wrong" if blames else "declined", f"expected {self.situation.hang or 'no hang'!r}", said)

    def _expected(self, run: StoredRun, faults: tuple[Fault, ...]) -> list[tuple[Expected, float | None]]:
        """What is expected, with the seconds of each in this run."""
        return [(one, one.seconds(run)) for one in self.situation.expected(self.workers, faults)]

    def _run(self, folder: Path, faults: tuple[Fault, ...], workers: int) -> None:
        settings: dict[str, Any] = {
            "workload": self._workload(faults),
            "workers": workers,
            "workers_per_device": max(1, workers // 2),
            "strategy": "allreduce" if workers > 1 else "independent",
            "steps": self.situation.steps,
            "validate": "off",
        }
        if self.situation.to_links is not None:
            self._run_on_links(folder, settings, self.situation.to_links)
            return
        planned = plan(RunSpec.from_dict(settings))
        with self.situation.around(planned):
            record = LocalEngine().run(planned, folder, NoDisplay())
        if record.failures:  # the engine ends a run after Ctrl-C, and keeps what it has
            raise KeyboardInterrupt(record.failures[0])

    def _run_on_links(self, folder: Path, settings: dict[str, Any], happens: Callable[[Testbed], None]) -> None:
        with Testbed(site(self.workers, f"{_LINK / 1e6:g}Mbps")) as made:
            engine = LocalEngine(made)
            spec = RunSpec.from_dict({**site_settings(made.site), **settings, "timeout": _TIMEOUT})
            engine.run(plan(spec, engine.site), folder, AtStep(_AT_STEP, lambda: happens(made)))

    def _workload(self, faults: tuple[Fault, ...]) -> str:
        options = {"busy": f"{_CORE_SECONDS / max(1, self.workers // 2):g}", "width": self.situation.width}
        if faults:
            names = ("where", "seconds", "rank", "every", "chance", "seed")
            options |= {name: "/".join(str(getattr(fault, name)) for fault in faults) for name in names}
        return "slowed:slowed:" + ",".join(f"{name}={value}" for name, value in options.items())

    def judge(self, told: dict[str, Any], expected: Sequence[tuple[Expected, float | None]]) -> Verdict:
        """What was said, against what was expected."""
        least = STANDS_OUT * told["step_seconds"]
        stated = [] if told["gap"] and told["gap"]["shares_percent"] is None else told["causes"][:_SHOWN]
        said = f"{told['verdict']} Next: {told['next']}"
        missing = []
        for one, seconds in expected:
            same = [said for said in stated if said["name"] == one.name]
            if not same and (seconds is None or seconds >= least):
                missing.append(one.name)
            elif same and not any(self._matches(said, one, seconds) for said in same):
                time = "any time" if seconds is None else f"{seconds * 1e3:.1f} ms"
                reason = f"{one.name}: expected of {one.ranks or 'all'}, {time}, with advice {one.advice!r}"
                return Verdict("wrong", reason, "; ".join(f"{c['sentence']} {c['remedy']}" for c in same))
        named = {one.name for one, _ in expected} | self._true_anyway()
        wrong = [cause["name"] for cause in stated if cause["seconds"] >= least and cause["name"] not in named]
        if wrong:
            return Verdict("wrong", f"{wrong[0]} is not there", said)
        if missing:
            return Verdict("declined", f"does not name {', '.join(missing)}", said)
        return Verdict("right", "", said)

    def _matches(self, said: dict[str, Any], expected: Expected, seconds: float | None) -> bool:
        within = max(expected.within, _WITHIN_LOADED) if self.loaded else expected.within
        right_rank = said["rank"] in (expected.ranks or (None,))
        right_time = seconds is None or abs(said["seconds"] - seconds) <= max(0.003, within * seconds)
        return right_rank and right_time and re.search(expected.advice, said["remedy"]) is not None

    def _true_anyway(self) -> frozenset[str]:
        """Causes that hold besides the faults: workers that share cores with one another or with others take turns."""
        shared = self.loaded or self.workers > 2 or self.situation.around is _busy_last_core
        anyway = frozenset({"shared cores", "spread"}) if shared else frozenset()
        return self.situation.also | anyway | (frozenset({"exchange"}) if self.loaded else frozenset())

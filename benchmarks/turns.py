"""Two ways to do the same steps, taken in turns within the same worker processes, until their ratio is certain."""

import math
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch

from paceline.engines.forking import PRELOADED
from paceline.engines.plan import Plan
from paceline.workers.assemble import Parts, assemble
from paceline.workers.assignment import Assignment, Handles
from paceline.workers.limit import Limit
from paceline.workers.loop import LoopConfig, train
from paceline.workers.schedule import Schedule
from paceline.workers.timing.clock import Clock

LEAST_PAIRS = 30
FEW_STEPS = 5

Turn = Callable[[int], None]
"""Do so many steps."""


def product_turn(parts: Parts) -> Callable[[Clock, int], None]:
    """So many steps of the product's own loop, with a clock."""
    batches = parts.feed.batches(0)
    schedule = Schedule(base=parts.spec.lr or 0.0, rule="none", workers=parts.group.size, warmup_steps=0)

    def turn(clock: Clock, steps: int) -> None:
        end = parts.progress.step + steps
        limit = Limit(parts.group, total_steps=end, seconds=None, synchronous=True, asked_to_stop=lambda: False)
        config = LoopConfig(
            workload=parts.workload,
            module=parts.module,
            replica=parts.replica,
            group=parts.group,
            clock=clock,
            schedule=schedule,
            limit=limit,
            accumulate=1,
            precision=nullcontext,
            pause=lambda progress, last: None,
            progress=lambda progress, loss: None,
        )
        train(config, batches, parts.progress)

    return turn


class Contest(NamedTuple):
    """What is compared, and for how long."""

    ways: Callable[[Parts], tuple[Turn, Turn]]
    """Makes both ways from a worker's parts; a module's function, because workers are other processes."""

    turn_steps: int | None
    """Steps of a turn; None: as many as fill `turn_seconds`."""

    turn_seconds: float
    half_width: float
    """The 90 % interval of the ratio shall be within ± this share."""

    seconds: float
    """At the most."""


class Ratio(NamedTuple):
    """Speed of the first way over that of the second."""

    mean: float
    low: float
    high: float
    pairs: int
    step_seconds: float
    """Of the second way."""


def _worker(assignment: Assignment, handles: Handles, line: "Connection[object, None]", contest: Contest) -> None:
    """Take turns until the time is over; rank 0 reports the times of every pair."""
    os.sched_setaffinity(0, assignment.slot.cores)
    parts = assemble(assignment, handles)
    first, second = contest.ways(parts)
    first(FEW_STEPS)
    second(FEW_STEPS)
    steps = contest.turn_steps or _agreed_steps(parts, second, contest.turn_seconds)
    begun, pair, over = time.perf_counter(), 0, False
    while not over:
        times = {}
        for turn in (first, second) if pair % 2 == 0 else (second, first):  # neither is always the first
            started = time.perf_counter()
            turn(steps)
            times[turn] = (time.perf_counter() - started) / steps
        if parts.group.rank == 0:
            line.send((times[first], times[second]))
        pair += 1
        word = torch.tensor([int(time.perf_counter() - begun > contest.seconds)])
        over = bool(parts.group.all_gather(word)[0])
    os._exit(0)


def _agreed_steps(parts: Parts, turn: Turn, seconds: float) -> int:
    started = time.perf_counter()
    turn(FEW_STEPS)
    pace = (time.perf_counter() - started) / FEW_STEPS
    return int(parts.group.all_gather(torch.tensor([max(1, round(seconds / pace))]))[0])


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Trimmed geometric mean of the ratios and its 90 % interval.

    A fifth of the ratios is left out at either end: a neighbour's burst during one turn says nothing about the loops.
    The error of a trimmed mean is that of the winsorised ratios over 1 − 2·0.2 (Yuen).
    """
    logs = sorted(math.log(r) for r in ratios)
    cut = len(logs) // 5
    kept = logs[cut : len(logs) - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = statistics.stdev(winsorised) / (len(kept) / len(logs)) / math.sqrt(len(logs))
    mean = statistics.mean(kept)
    return math.exp(mean), math.exp(mean - 1.645 * error), math.exp(mean + 1.645 * error)


def measure(planned: Plan, contest: Contest) -> Ratio:
    """Start the workers and watch their ratio become certain."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    processes = []
    with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as listener:
        for rank in range(planned.spec.workers):
            assignment = Assignment(
                spec=planned.spec,
                strategy=planned.traffic,
                placement=planned.placement,
                rank=rank,
                store=listener.getsockname(),
                scratch=Path(scratch),
                checkpoints=Path(scratch),
                environment={},
            )
            handles = Handles(listener) if rank == 0 else Handles()
            process = context.Process(target=_worker, args=(assignment, handles, theirs, contest))
            process.start()
            processes.append(process)
        theirs.close()
        try:
            return _watch(ours, contest.half_width)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _watch(line: "Connection[None, tuple[float, float]]", half_width: float) -> Ratio:
    """Collect pairs until the interval is narrow enough, or the workers have used their time."""
    ratios: list[float] = []
    paces: list[float] = []
    while True:
        try:
            first, second = line.recv()
        except EOFError:
            break
        ratios.append(second / first)
        paces.append(second)
        if len(ratios) > 2:
            mean, low, high = interval(ratios)
            print(f"\r  {len(ratios)} pairs: {mean:.4f} ({low:.4f}–{high:.4f})", end="", file=sys.stderr, flush=True)
            if len(ratios) >= LEAST_PAIRS and high - low <= 2 * half_width * mean:
                break
    print(file=sys.stderr)
    return Ratio(*interval(ratios), len(ratios), statistics.median(paces))

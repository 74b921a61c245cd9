"""How much of a bare DDP loop's speed `paceline train` keeps, measured in turns within the same worker processes.

    python benchmarks/bare_ddp.py [--minutes 5] [WORKLOAD@BATCH …]

Every worker holds both: what `paceline train` is made of (feed, strategy, loop, clock) and a bare loop around
DistributedDataParallel with the same model, batch, threads and pinning. They take turns of about a second; the ratio of
each pair of turns is one observation. It stops when the 90 % interval of the ratio is within ± 1.5 %.
"""

import argparse
import math
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from paceline.engines.local import PRELOADED
from paceline.engines.plan import Plan, plan
from paceline.feeds.order import permutation
from paceline.spec import RunSpec
from paceline.workers.assemble import Parts, assemble
from paceline.workers.assignment import Assignment, Gifts
from paceline.workers.clock import Clock
from paceline.workers.limit import Limit
from paceline.workers.loop import Course, train
from paceline.workers.schedule import Schedule

WORKLOADS = (("vae", 32), ("resnet18", 8), ("bert-base", 4))
TURN_SECONDS = 0.8
LEAST_PAIRS = 30
HALF_WIDTH = 0.015


def paceline_turns(parts: Parts) -> Callable[[int], None]:
    """So many steps of the product's own loop."""
    batches = parts.feed.batches(0)
    lr = parts.spec.lr or 0.0
    clock, schedule = Clock(), Schedule(base=lr, rule="none", workers=parts.group.size, warmup_steps=0)

    def turn(steps: int) -> None:
        end = parts.progress.step + steps
        limit = Limit(parts.group, total_steps=end, seconds=None, synchronous=True, asked_to_stop=lambda: False)
        course = Course(
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
        train(course, batches, parts.progress)

    return turn


def bare_turns(parts: Parts) -> Callable[[int], None]:
    """So many steps of a loop that does nothing but train, with the settings that make DDP fastest."""
    workload, group = parts.workload, parts.group
    torch.manual_seed(0)
    module: nn.Module = DistributedDataParallel(
        workload.model(), gradient_as_bucket_view=True, forward_sync_buffers=False
    )
    optimizer = workload.optimizer.build(module.parameters())
    batches = bare_batches(parts)
    module.train()

    def turn(steps: int) -> None:
        group.barrier()
        for _ in range(steps):
            loss = workload.loss(module, next(batches))
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        group.barrier()

    return turn


def bare_batches(parts: Parts) -> Iterator[tuple[torch.Tensor, ...]]:
    """This worker's part of every whole batch, in shuffled order."""
    batch, size, rank = parts.spec.batch or 1, parts.group.size, parts.group.rank
    samples = len(parts.data.train)
    for epoch in range(sys.maxsize):
        order = permutation(samples, 0, epoch)
        for first in range(0, samples - batch * size + 1, batch * size):
            yield parts.data.train.batch(np.ascontiguousarray(order[first + rank * batch : first + (rank + 1) * batch]))


def worker(assignment: Assignment, gifts: Gifts, line: "Connection[tuple[float, float], None]", seconds: float) -> None:
    """Take turns until told otherwise by the clock; rank 0 reports the times of every pair."""
    os.sched_setaffinity(0, assignment.slot.cores)
    parts = assemble(assignment, gifts)
    ours, theirs = paceline_turns(parts), bare_turns(parts)
    ours(2)
    theirs(2)
    steps = agreed_steps(parts, theirs)
    begun, pair, over = time.perf_counter(), 0, False
    while not over:
        times = {}
        for turn in (ours, theirs) if pair % 2 == 0 else (theirs, ours):  # neither is always the first
            started = time.perf_counter()
            turn(steps)
            times[turn] = time.perf_counter() - started
        if parts.group.rank == 0:
            line.send((times[ours], times[theirs]))
        pair += 1
        word = torch.tensor([int(time.perf_counter() - begun > seconds)])
        over = bool(parts.group.all_gather(word)[0])
    os._exit(0)


def agreed_steps(parts: Parts, turn: Callable[[int], None]) -> int:
    """As many steps as fill a turn."""
    started = time.perf_counter()
    turn(3)
    pace = (time.perf_counter() - started) / 3
    return int(parts.group.all_gather(torch.tensor([max(1, round(TURN_SECONDS / pace))]))[0])


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


def measure(planned: Plan, seconds: float) -> tuple[float, float, float, int]:
    """Start the workers and watch their ratio become certain."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    processes = []
    with tempfile.TemporaryDirectory() as scratch, socket.create_server(("127.0.0.1", 0)) as listener:
        for rank in range(planned.spec.workers):
            assignment = Assignment(
                spec=planned.spec,
                placement=planned.placement,
                rank=rank,
                port=listener.getsockname()[1],
                scratch=Path(scratch),
                checkpoints=Path(scratch),
                environment={},
            )
            gifts = Gifts(listener) if rank == 0 else Gifts()
            process = context.Process(target=worker, args=(assignment, gifts, theirs, seconds))
            process.start()
            processes.append(process)
        theirs.close()
        try:
            return watch(ours)
        finally:
            for process in processes:
                process.kill()
                process.join()


def watch(line: "Connection[None, tuple[float, float]]") -> tuple[float, float, float, int]:
    """Collect pairs until the interval is narrow enough, or the workers have used their time."""
    ratios: list[float] = []
    while True:
        try:
            ours, theirs = line.recv()
        except EOFError:
            break
        ratios.append(theirs / ours)
        if len(ratios) > 2:
            mean, low, high = interval(ratios)
            print(f"\r  {len(ratios)} pairs: {mean:.4f} ({low:.4f}–{high:.4f})", end="", file=sys.stderr, flush=True)
            if len(ratios) >= LEAST_PAIRS and high - low <= 2 * HALF_WIDTH * mean:
                break
    print(file=sys.stderr)
    return (*interval(ratios), len(ratios))


def main() -> None:
    """Measure what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=[f"{name}@{batch}" for name, batch in WORKLOADS])
    parser.add_argument("--minutes", type=float, default=8.0, help="at the most, for each workload")
    arguments = parser.parse_args()
    print("| workload | batch | paceline ÷ bare DDP | 90 % interval | pairs of turns |\n|---|---|---|---|---|")
    for text in arguments.workloads:
        name, _, batch = text.partition("@")
        spec = RunSpec(workload=name, workers=2, batch=int(batch), steps=10**9, validate="off")
        mean, low, high, pairs = measure(plan(spec), 60 * arguments.minutes)
        print(f"| {name} | {batch} | {mean:.3f} | {low:.3f}–{high:.3f} | {pairs} |", flush=True)


if __name__ == "__main__":
    main()

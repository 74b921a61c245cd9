"""How much of a bare DDP loop's speed `paceline train` keeps, measured in turns within the same worker processes.

    python benchmarks/bare_ddp.py [--minutes 5] [WORKLOAD@BATCH …]

Every worker holds both: what `paceline train` is made of (feed, strategy, loop, clock) and a bare loop around
DistributedDataParallel with the same model, batch, threads and pinning. They take turns of about a second; the ratio of
each pair of turns is one observation. It stops when the 90 % interval of the ratio is within ± 1.5 %.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from turns import Contest, Turn, measure, product_turn

from paceline.engines.plan import plan
from paceline.feeds.order import permutation
from paceline.spec import RunSpec
from paceline.workers.assemble import Parts

WORKLOADS = (("vae", 32), ("resnet18", 8), ("bert-base", 4))
TURN_SECONDS = 0.8
HALF_WIDTH = 0.015


def bare_turns(parts: Parts) -> Turn:
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


def ways(parts: Parts) -> tuple[Turn, Turn]:
    """The product's loop, and the bare one."""
    ours = product_turn(parts)
    return lambda steps: ours(parts.clock, steps), bare_turns(parts)


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
        contest = Contest(ways, None, TURN_SECONDS, HALF_WIDTH, 60 * arguments.minutes)
        ratio = measure(plan(spec), contest)
        print(f"| {name} | {batch} | {ratio.mean:.3f} | {ratio.low:.3f}–{ratio.high:.3f} | {ratio.pairs} |", flush=True)


if __name__ == "__main__":
    main()

"""A small workload with known delays: `slowed:slowed:where=backward,seconds=0.05,rank=1`.

Several faults are separated by `/`, as in `where=forward/input,seconds=0.05/0.02,rank=1/all,every=4/1`.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline import Data, OptimizerRecipe, Tensors, Workload
from paceline.strategies.group import Pending, TorchGroup

ASLEEP_SECONDS = 0.03
BATCH = 4
PLACES = ("nowhere", "forward", "backward", "optimizer", "input", "exchange")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A delay in one place of a step."""

    where: str
    seconds: float
    rank: str = "all"
    """A worker's number; `all` of them, at once; or `each`, at different steps where `chance` decides."""

    every: int = 1
    """In every step, every second one, …"""

    chance: float = 1.0
    """Probability of every such step."""

    seed: int = 0
    """Which of those steps it hits; the same in each run."""

    def hits(self, step: int, rank: int) -> bool:
        """Whether it delays this worker's step."""
        if self.rank not in ("all", "each", str(rank)) or (step + 1) % self.every:
            return False
        drawn = random.Random(f"{self.seed} {self.where} {rank if self.rank == 'each' else ''} {step}").random()
        return drawn < self.chance


def faults_of(where: str, seconds: str, rank: str, every: str, chance: str, seed: str) -> list[Fault]:
    """One fault for each place; a single value of the others holds for all."""
    places = where.split("/")
    columns = [values.split("/") for values in (seconds, rank, every, chance, seed)]
    rows = zip(places, *(column * (len(places) if len(column) == 1 else 1) for column in columns), strict=True)
    unknown = set(places) - set(PLACES)
    if unknown:
        raise ValueError(f"where={where}: no place is called {unknown.pop()}; there are {', '.join(PLACES)}.")
    return [
        Fault(where=w, seconds=float(s), rank=r, every=int(e), chance=float(c), seed=int(n))
        for w, s, r, e, c, n in rows
    ]


class Delays:
    """The delays of one place; counts how often it was passed."""

    def __init__(self, faults: list[Fault], where: str) -> None:
        self._faults = [fault for fault in faults if fault.where == where]
        self._passed = 0

    def next(self) -> float:
        """Seconds of this step."""
        step, self._passed = self._passed, self._passed + 1
        rank = dist.get_rank() if dist.is_initialized() else 0
        return sum(fault.seconds for fault in self._faults if fault.hits(step, rank))


def compute(seconds: float) -> None:
    """Use a core for so much CPU time."""
    until, matrix = time.thread_time() + seconds, torch.ones(64, 64)
    while time.thread_time() < until:
        matrix @ matrix


class _Backward(torch.autograd.Function):
    """Nothing, but its gradient takes time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, asleep: float, busy: float) -> Tensor:
        ctx.seconds = (asleep, busy)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        asleep, busy = ctx.seconds
        compute(busy)
        time.sleep(asleep)
        return gradient, None, None


class _SlowPending:
    def __init__(self, pending: Pending, delays: Delays) -> None:
        self._pending, self._delays = pending, delays

    def wait(self) -> None:
        self._pending.wait()
        time.sleep(self._delays.next())


class _SlowTensors(Tensors):
    delays: Delays

    def batch(self, rows: np.ndarray) -> tuple[Tensor, ...]:
        if len(rows) == BATCH:  # not the trial before training, which one worker does for all
            time.sleep(self.delays.next())
        return super().batch(rows)


class SlowSGD(torch.optim.SGD):
    def __init__(self, parameters: Any, lr: float, **faults: str) -> None:
        super().__init__(parameters, lr=lr)
        self._delays = Delays(faults_of(**faults), "optimizer")

    def step(self, closure: Any = None) -> Any:
        time.sleep(self._delays.next())
        return super().step(closure)


def _slow_collectives(delays: Delays) -> None:
    quick = TorchGroup.all_reduce

    def slow(self: TorchGroup, tensor: Tensor, then: Any = None) -> Pending:
        return _SlowPending(quick(self, tensor, then), delays)

    TorchGroup.all_reduce = slow  # type: ignore[method-assign]


def _loss(forward: Delays, backward: Delays, busy: float) -> Callable[[nn.Module, tuple[Tensor, ...]], Tensor]:
    def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        if not model.training:  # the trial before training, which one worker does for all
            return nn.functional.mse_loss(model(batch[0]), batch[1])
        compute(busy / 2)
        time.sleep((0.0 if busy else ASLEEP_SECONDS) + forward.next())
        predicted = _Backward.apply(model(batch[0]), backward.next(), busy / 2)  # type: ignore[no-untyped-call]
        return nn.functional.mse_loss(predicted, batch[1])

    return loss


def _model(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(1, width), nn.Linear(width, 1)) if width else nn.Linear(1, 1)


def slowed(
    where: str = "nowhere",
    seconds: str = "0",
    rank: str = "all",
    every: str = "1",
    chance: str = "1",
    seed: str = "0",
    busy: float = 0.0,
    width: int = 0,
) -> Workload:
    """Points on a line. Forward sleeps 30 ms, or forward and backward compute for `busy` seconds; then the faults."""
    given = {"where": where, "seconds": seconds, "rank": rank, "every": every, "chance": chance, "seed": seed}
    faults = faults_of(**given)
    delays = {place: Delays(faults, place) for place in PLACES}

    def data() -> Data:
        if any(fault.where == "exchange" for fault in faults):  # only in a worker, not where the run is planned
            _slow_collectives(delays["exchange"])
        x = torch.linspace(-1, 1, 4096).reshape(-1, 1)
        examples = _SlowTensors(x, 2 * x)
        examples.delays = delays["input"]
        return Data(train=examples, validation=None, source="a line", generated=True)

    return Workload(
        name="slowed",
        unit="points",
        model=lambda: _model(width),
        loss=_loss(delays["forward"], delays["backward"], busy),
        data=data,
        optimizer=OptimizerRecipe.of(partial(SlowSGD, lr=1e-6 if width else 0.05, **given)),
        batch=BATCH,
    )

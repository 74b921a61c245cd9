"""All-reduce on DDP's reducer: a comm hook starts each bucket's exchange, and `exchange` waits for all of them."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from paceline.errors import SpecError
from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import Events, NoEvents, Replica, Share, State
from paceline.strategies.buffers import share_buffers
from paceline.strategies.gradients import ArrivedGradients
from paceline.strategies.group import Group, Pending
from paceline.strategies.local import LocalReplica, copy_of, load_into, without_gradient
from paceline.traffic.allreduce import AllReduce

_WIRE = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
_MIB = 2**20


class _Rehearsable(nn.Module):
    """The model, able to run once without data so that DDP fixes its buckets before the first step.

    DDP lays its buckets anew after the first backward, in the order in which gradients came. A resumed run would
    then add up in another order than the run it continues. A rehearsal whose gradients come in reverse order of
    registration, the order DDP itself expects, settles the layout once and for all.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.inner = model
        self.rehearsing = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.rehearsing:
            parts = [p.flatten()[:1].sum() for p in self.inner.parameters() if p.requires_grad]
            return torch.stack(parts).sum() * 0
        return self.inner(*args, **kwargs)


@dataclass
class _Message:
    """Gradients under way together: those of one bucket, one pack, or several small ones."""

    buckets: Sequence[int]
    targets: Sequence[Tensor]
    packed: Tensor
    """What is on the wire: the target itself, or a copy in wire format or of several targets."""

    pending: Pending
    ended: threading.Event
    """Whether its end has been reported, at the moment it happened."""

    def finish(self) -> None:
        """Wait for the sum and put it where the gradients are."""
        self.pending.wait()
        if self.packed is not self.targets[0]:
            sizes = [t.numel() for t in self.targets]
            for target, value in zip(self.targets, torch.split(self.packed, sizes), strict=True):
                target.copy_(value)


class AllReduceReplica(LocalReplica):
    """A replica whose gradients are added up over all workers, bucket by bucket."""

    def __init__(
        self, module: nn.Module, recipe: OptimizerRecipe, group: Group, events: Events, options: AllReduce
    ) -> None:
        super().__init__(module, recipe, group, mean_over_all=options.reduce == "mean")
        if group.process_group is None:
            raise SpecError("allreduce stands on DDP's reducer, which needs worker processes.")
        self._options = options
        self._events: Events = NoEvents()  # nobody need hear of the rehearsal
        self._arrived = ArrivedGradients(module)
        self._last_loss = True
        self._ready: list[tuple[int, Tensor]] = []
        self._small: list[tuple[int, Tensor]] = []
        self._under_way: list[_Message] = []
        self._rehearsable = _Rehearsable(module)
        self.model = DistributedDataParallel(
            self._rehearsable,
            process_group=group.process_group,
            bucket_cap_mb=_bucket_mib(options, self._parameters),
            gradient_as_bucket_view=True,
            init_sync=False,  # start_equal has done it
            forward_sync_buffers=False,  # buffers stay local until settle
        )
        self.model.register_comm_hook(None, self._bucket_ready)
        self._rehearse()
        self._events = events

    def _rehearse(self) -> None:
        self._rehearsable.rehearsing = True
        torch.autograd.backward(self.model())
        self._finish()
        self._rehearsable.rehearsing = False
        self._optimizer.zero_grad()
        self._arrived.reset()
        self._group.tally.clear()

    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        """Gradients weighted by samples; with the last loss buckets leave as they become complete."""
        self._last_loss = last
        torch.autograd.backward(loss * self._shares.weight(share))
        missing = self._arrived.missing()
        self._arrived.reset()
        if missing:  # of this loss: DDP would keep the bucket, and the update would be this worker's alone
            raise without_gradient(missing)

    def _bucket_ready(self, _: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """DDP's comm hook, called in the same order of buckets on every worker.

        It answers with a future that is done already, so that backward does not wait; `exchange` does. Gradients
        are views of the buckets, so a loss that is not the last one just leaves its part there.
        """
        gradients = bucket.buffer()
        if self._last_loss:
            self._events.ready(bucket.index(), gradients.nbytes)
            self._ready.append((bucket.index(), gradients))
            if self._options.overlaps:
                self._send_ready(last=bucket.is_last())
        future: torch.futures.Future[Tensor] = torch.futures.Future(
            devices=[gradients.device] if gradients.is_cuda else None
        )
        future.set_result(gradients)
        return future

    def _send_ready(self, *, last: bool) -> None:
        """Start the exchange of every bucket that is ready; small ones wait for company."""
        limit = self._options.small or 0
        for index, gradients in self._ready:
            if gradients.nbytes >= limit:
                self._events.start(index)
                for piece in gradients.tensor_split(max(1, min(self._options.packs or 1, gradients.numel()))):
                    self._send((index,), [piece])
                continue
            self._small.append((index, gradients))
            if sum(waiting.nbytes for _, waiting in self._small) >= limit:
                self._send_small()
        self._ready = []
        if last and self._small:
            self._send_small()

    def _send_small(self) -> None:
        indices, gradients = zip(*self._small, strict=True)
        for index in indices:
            self._events.start(index)
        self._send(indices, gradients)
        self._small = []

    def _send(self, buckets: Sequence[int], targets: Sequence[Tensor]) -> None:
        packed = targets[0] if len(targets) == 1 else torch.cat(list(targets))
        wire = _WIRE[self._options.wire]
        if wire is not None:
            packed = packed.to(wire)
        ended = threading.Event()

        def end() -> None:
            ended.set()
            for bucket in buckets:
                self._events.end(bucket)

        pending = self._group.all_reduce(packed, then=end if self._events.watching else None)
        self._under_way.append(_Message(buckets, targets, packed, pending, ended))

    def _finish(self) -> None:
        """Wait for everything under way: the synchronisation point of this strategy."""
        if not self._options.overlaps:
            self._send_ready(last=True)
        for message in self._under_way:
            message.finish()
            if not message.ended.is_set():
                for index in message.buckets:
                    self._events.end(index)
        self._under_way = []

    def exchange(self, samples: int) -> None:
        """Return when every bucket is the sum over all workers."""
        super().exchange(samples)
        self._finish()

    def close(self) -> None:
        """Take the hooks off the model, too."""
        self._arrived.close()
        super().close()

    def settle(self) -> None:
        """Weights agree after every update; buffers become rank 0's."""
        share_buffers(self._module, self._group)

    def state(self) -> State:
        """Weights and optimizer are everybody's; buffers are this worker's."""
        return State(shared=self._trained(), own={"buffers": copy_of(dict(self._module.named_buffers()))})

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        self._load_trained(state.shared)
        load_into(dict(self._module.named_buffers()), state.own["buffers"])


def _bucket_mib(options: AllReduce, parameters: Sequence[Tensor]) -> float | None:
    """The size at which DDP closes a bucket, in MiB: None its own, one byte for a bucket per gradient."""
    if options.packs is not None:
        return sum(p.nbytes for p in parameters) / _MIB + 1
    if options.small is not None:
        return 1 / _MIB
    return options.bucket / _MIB if options.bucket is not None else None


class AllReduceStrategy:
    """Gradients averaged, or added up, over all workers."""

    def __init__(self, options: AllReduce) -> None:
        self._options = options

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica that holds the same weights as its peers after every update."""
        return AllReduceReplica(model, optimizer, group, events, self._options)

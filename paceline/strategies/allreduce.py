"""All-reduce on DDP's reducer: a comm hook starts each bucket's exchange, and `exchange` waits for all of them."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from paceline.errors import SpecError
from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import Carrier, Events, NoEvents, Replica, Share, State
from paceline.strategies.buffers import share_buffers
from paceline.strategies.carrier import AllReduceCarrier
from paceline.strategies.codec import BucketViews, Codec, CodecFactory, CodedExchange
from paceline.strategies.gradients import ArrivedGradients
from paceline.strategies.group import Group, Pending
from paceline.strategies.local import LocalReplica, copy_of, load_into, without_gradient
from paceline.strategies.state import StateDict
from paceline.traffic.allreduce import AllReduce

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
class _Plain:
    """Gradients under way as they are: those of one bucket, one pack, or several small ones side by side."""

    targets: Sequence[Tensor]
    packed: Tensor
    """What is on the wire: the target itself, or a copy of several targets."""

    pending: Pending

    def advance(self) -> bool:
        """Wait for the sum and put it where the gradients are; there is no further round."""
        self.pending.wait()
        if self.packed is not self.targets[0]:
            sizes = [t.numel() for t in self.targets]
            for target, value in zip(self.targets, torch.split(self.packed, sizes), strict=True):
                target.copy_(value)
        return False


@dataclass
class _UnderWay:
    """An exchange under way, and whose gradients it carries."""

    buckets: Sequence[int]
    exchange: _Plain | CodedExchange
    ended: threading.Event
    """Whether its end has been reported, at the moment it happened."""


@dataclass
class _Ready:
    """A bucket whose gradients are all there."""

    index: int
    gradients: Tensor
    views: Sequence[Tensor]
    """Each parameter's, where a codec wants to see them; otherwise empty."""


class AllReduceReplica(LocalReplica):
    """A replica whose gradients are added up over all workers, bucket by bucket."""

    def __init__(
        self,
        module: nn.Module,
        recipe: OptimizerRecipe,
        group: Group,
        events: Events,
        options: AllReduce,
        codec: Codec | None = None,
    ) -> None:
        super().__init__(module, recipe, group, mean_over_all=options.reduce == "mean")
        if group.process_group is None:
            raise SpecError("allreduce stands on DDP's reducer, which needs worker processes.")
        self._options = options
        self._codec: Codec | None = None  # the rehearsal's gradients must leave no trace in it
        self._events: Events = NoEvents()  # nobody need hear of the rehearsal
        self._arrived = ArrivedGradients(module)
        self._last_loss = True
        self._ready: list[_Ready] = []
        self._small: list[_Ready] = []
        self._under_way: list[_UnderWay] = []
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
        self._codec = codec
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
            views = bucket.gradients() if self._codec is not None else ()
            self._ready.append(_Ready(bucket.index(), gradients, views))
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
        for ready in self._ready:
            if ready.gradients.nbytes >= limit:
                self._events.start(ready.index)
                self._send_large(ready)
                continue
            self._small.append(ready)
            if sum(waiting.gradients.nbytes for waiting in self._small) >= limit:
                self._send_small()
        self._ready = []
        if last and self._small:
            self._send_small()

    def _send_large(self, ready: _Ready) -> None:
        if self._options.packs is None:
            self._send((ready.index,), [ready.gradients], ready.views)
            return
        for piece in ready.gradients.tensor_split(max(1, min(self._options.packs, ready.gradients.numel()))):
            self._send((ready.index,), [piece], [piece])

    def _send_small(self) -> None:
        for ready in self._small:
            self._events.start(ready.index)
        views = [view for ready in self._small for view in ready.views]
        self._send([ready.index for ready in self._small], [ready.gradients for ready in self._small], views)
        self._small = []

    def _send(self, buckets: Sequence[int], targets: Sequence[Tensor], views: Sequence[Tensor]) -> None:
        ended = threading.Event()

        def end() -> None:
            ended.set()
            for bucket in buckets:
                self._events.end(bucket)

        exchange = self._start(targets, views, end if self._events.watching else None)
        self._under_way.append(_UnderWay(buckets, exchange, ended))

    def _start(
        self, targets: Sequence[Tensor], views: Sequence[Tensor], then: Callable[[], None] | None
    ) -> _Plain | CodedExchange:
        if self._codec is None:
            packed = targets[0] if len(targets) == 1 else torch.cat(list(targets))
            return _Plain(targets, packed, self._group.all_reduce(packed, then=then))
        # The layout is fixed, so the n-th message of every step holds the same gradients.
        bucket = BucketViews(str(len(self._under_way)), targets, views)
        one_round = len(self._codec.options.patterns) == 1
        return CodedExchange(self._codec.code(bucket), self._group, then if one_round else None)

    def _finish(self) -> None:
        """Wait for everything under way: the synchronisation point of this strategy.

        A bucket's later rounds join the end of the queue, so that all workers start collectives in the same order.
        """
        if not self._options.overlaps:
            self._send_ready(last=True)
        queue = deque(self._under_way)
        while queue:
            message = queue.popleft()
            if message.exchange.advance():
                queue.append(message)
            elif not message.ended.is_set():
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
        """Weights and optimizer are everybody's; buffers and what a codec keeps are this worker's."""
        own: StateDict = {"buffers": copy_of(dict(self._module.named_buffers()))}
        if self._codec is not None:
            own["codec"] = self._codec.state()
        return State(shared=self._trained(), own=own)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        self._load_trained(state.shared)
        load_into(dict(self._module.named_buffers()), state.own["buffers"])
        if self._codec is not None:
            self._codec.load(state.own.get("codec", {}))  # casts of version 0.1.0 saved nothing


def _bucket_mib(options: AllReduce, parameters: Sequence[Tensor]) -> float | None:
    """The size at which DDP closes a bucket, in MiB: None its own, one byte for a bucket per gradient."""
    if options.packs is not None:
        return sum(p.nbytes for p in parameters) / _MIB + 1
    if options.small is not None:
        return 1 / _MIB
    return options.bucket / _MIB if options.bucket is not None else None


class AllReduceStrategy:
    """Gradients averaged, or added up, over all workers."""

    def __init__(self, options: AllReduce, codec: CodecFactory | None = None) -> None:
        self._options = options
        self._codec = codec

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica that holds the same weights as its peers after every update."""
        codec = None if self._codec is None else self._codec()
        return AllReduceReplica(model, optimizer, group, events, self._options, codec)

    def carrier(self, tensors: Sequence[Tensor], group: Group) -> Carrier:
        """For tensors of these sizes, agreed on outside of backward."""
        return AllReduceCarrier(self._options, self._codec, group, tensors)

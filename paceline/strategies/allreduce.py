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
    """Wraps the model so that it can run once without data, which fixes DDP's buckets before the first step.

    DDP rebuilds its buckets after the first backward, in the order in which gradients arrived. A resumed run would
    then sum in another order than the original run. A rehearsal whose gradients arrive in reverse order of
    registration, the order that DDP expects, fixes the layout permanently.
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
    """Unencoded gradients in flight: those of one bucket, one pack, or several small ones in one message."""

    targets: Sequence[Tensor]
    packed: Tensor
    """The tensor that is sent: the target itself, or a copy of several targets."""

    pending: Pending

    def advance(self) -> bool:
        """Wait for the sum and write it to the gradients; there is no further round."""
        self.pending.wait()
        if self.packed is not self.targets[0]:
            sizes = [t.numel() for t in self.targets]
            for target, value in zip(self.targets, torch.split(self.packed, sizes), strict=True):
                target.copy_(value)
        return False


@dataclass
class _UnderWay:
    """An exchange in flight, and the buckets that it carries."""

    buckets: Sequence[int]
    exchange: _Plain | CodedExchange
    ended: threading.Event
    """Whether its end was already reported, at the moment it happened."""


@dataclass
class _Ready:
    """A bucket whose gradients are all ready."""

    index: int
    gradients: Tensor
    views: Sequence[Tensor]
    """The gradient of each parameter, if a codec needs them; otherwise empty."""


class AllReduceReplica(LocalReplica):
    """A replica whose gradients are summed over all workers, bucket by bucket."""

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
            raise SpecError("allreduce uses DDP's reducer, which needs worker processes.")
        self._options = options
        self._codec: Codec | None = None  # the rehearsal's gradients must not remain in it
        self._events: Events = NoEvents()  # the rehearsal reports no events
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
        """Compute gradients weighted by samples; during the last loss, buckets are sent as they become complete."""
        self._last_loss = last
        torch.autograd.backward(loss * self._shares.weight(share))
        missing = self._arrived.missing()
        self._arrived.reset()
        if missing:  # in this loss: DDP would keep the bucket, and the update would use this worker's gradients only
            raise without_gradient(missing)

    def _bucket_ready(self, _: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """DDP's comm hook, called in the same order of buckets on every worker.

        It returns a completed future, so that backward does not wait; `exchange` does. Gradients are views of the
        buckets, so a loss that is not the last one just accumulates there.
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
        """Start the exchange of every bucket that is ready; small ones wait to be sent together."""
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
        """Wait for all exchanges in flight: the synchronisation point of this strategy.

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
        """Return when every bucket holds the sum over all workers."""
        super().exchange(samples)
        self._finish()

    def close(self) -> None:
        """Also remove the hooks from the model."""
        self._arrived.close()
        super().close()

    def settle(self) -> None:
        """Copy rank 0's buffers to all workers; weights are equal after every update."""
        share_buffers(self._module, self._group)

    def state(self) -> State:
        """Weights and optimizer are shared; buffers and the codec's state are this worker's own."""
        own: StateDict = {"buffers": copy_of(dict(self._module.named_buffers()))}
        if self._codec is not None:
            own["codec"] = self._codec.state()
        return State(shared=self._trained(), own=own)

    def load(self, state: State) -> None:
        """Resume from a saved state."""
        self._load_trained(state.shared)
        load_into(dict(self._module.named_buffers()), state.own["buffers"])
        if self._codec is not None:
            self._codec.load(state.own.get("codec", {}))  # casts of version 0.1.0 saved nothing


def _bucket_mib(options: AllReduce, parameters: Sequence[Tensor]) -> float | None:
    """The size at which DDP closes a bucket, in MiB: None for its default, one byte for a bucket per gradient."""
    if options.packs is not None:
        return sum(p.nbytes for p in parameters) / _MIB + 1
    if options.small is not None:
        return 1 / _MIB
    return options.bucket / _MIB if options.bucket is not None else None


class AllReduceStrategy:
    """Gradients averaged, or summed, over all workers."""

    def __init__(self, options: AllReduce, codec: CodecFactory | None = None) -> None:
        self._options = options
        self._codec = codec

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica that holds the same weights as its peers after every update."""
        codec = None if self._codec is None else self._codec()
        return AllReduceReplica(model, optimizer, group, events, self._options, codec)

    def carrier(self, tensors: Sequence[Tensor], group: Group) -> Carrier:
        """A carrier for tensors of these sizes, synchronised outside of backward."""
        return AllReduceCarrier(self._options, self._codec, group, tensors)

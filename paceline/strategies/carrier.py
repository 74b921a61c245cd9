"""Synchronisation of tensors outside of backward: how a schedule of every H steps uses a transport."""

from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from paceline.strategies.codec import BucketViews, CodecFactory, CodedExchange, Uncoded
from paceline.strategies.group import Group
from paceline.strategies.state import StateDict
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.base import Payload


class AllReduceCarrier:
    """Sums or averages tensors over all workers, in the buckets that `allreduce` declares."""

    def __init__(self, options: AllReduce, codec: CodecFactory | None, group: Group, tensors: Sequence[Tensor]) -> None:
        self._options = options
        self._codec = codec() if codec is not None else Uncoded()
        self._group = group
        sizes, shapes = tuple(t.nbytes for t in tensors), tuple(tuple(t.shape) for t in tensors)
        payload = Payload(sizes, 0, tensors[0].element_size() if tensors else 4, shapes)
        self._buckets = options.buckets(payload)

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Replace each of these contiguous tensors by the mean, or the sum, over all workers; a synchronisation point.

        They have the sizes that this carrier was created for, in the same order.
        """
        if self._options.reduction == "mean":
            for tensor in tensors:
                tensor.div_(self._group.size)
        flat = torch.cat([tensors[i].view(-1) for i in self._buckets[0].tensors]) if self._options.packs else None
        pieces = self._views(tensors) if flat is None else self._slices(flat)
        under_way = deque([CodedExchange(self._codec.code(piece), self._group) for piece in pieces])
        while under_way:
            exchange = under_way.popleft()
            if exchange.advance():
                under_way.append(exchange)
        if flat is not None:
            order = [tensors[i].view(-1) for i in self._buckets[0].tensors]
            BucketViews("all", order).write(flat)

    def _views(self, tensors: Sequence[Tensor]) -> Iterator[BucketViews]:
        for number, bucket in enumerate(self._buckets):
            views = [tensors[i] for i in bucket.tensors]
            yield BucketViews(str(number), [view.view(-1) for view in views], views)

    def _slices(self, flat: Tensor) -> Iterator[BucketViews]:
        for number, piece in enumerate(flat.tensor_split(len(self._buckets))):
            yield BucketViews(str(number), [piece])

    def state(self) -> StateDict:
        """The state of the codec."""
        return self._codec.state()

    def load(self, state: StateDict) -> None:
        """Resume from a saved state."""
        self._codec.load(state)

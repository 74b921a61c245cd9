"""What carries out the members of `toys`."""

import time
from typing import Any

import torch
from torch import Tensor, nn
from toys import Every, LowRank

from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import Events, Replica, Share, State, Transport
from paceline.strategies.buffers import share_buffers
from paceline.strategies.codec import BucketViews, Codec, OneRoundCodec, Rounds, Sum
from paceline.strategies.group import Group
from paceline.strategies.local import LocalReplica, copy_of, load_into
from paceline.traffic.members import CodecClaim


class SignsCodec(OneRoundCodec):
    """One byte for the sign of each element, after four for their mean size."""

    def __init__(self, options: CodecClaim) -> None:
        super().__init__(options)
        self.residuals: dict[str, Tensor] = {}

    def encode(self, bucket: BucketViews) -> Tensor:
        wanted = bucket.flat() + self.residuals.get(bucket.key, 0.0)
        scale = wanted.abs().mean().to(torch.float32).reshape(1)
        coded = torch.cat([scale.view(torch.uint8), (wanted >= 0).to(torch.uint8)])
        self.residuals[bucket.key] = wanted - self.decode(coded, bucket.elements)
        return coded

    def decode(self, coded: Tensor, elements: int) -> Tensor:
        scale = coded[:4].clone().view(torch.float32)
        return scale * (2.0 * coded[4:] - 1.0)

    def state(self) -> dict[str, Any]:
        return copy_of(self.residuals)

    def load(self, state: dict[str, Any]) -> None:
        self.residuals = dict(state)


class LowRankCodec(Codec):
    """M ≈ P Qᵀ: P = M Q is summed and made orthogonal, then Q = Mᵀ P is summed; what that loses stays for later."""

    def __init__(self, options: LowRank) -> None:
        super().__init__(options)
        self._rank_of = options.rank_of
        self._kept: dict[str, Tensor] = {}

    def code(self, bucket: BucketViews) -> Rounds:
        vectors = [view for view in bucket.views if view.dim() < 2]
        matrices = [view.reshape(len(view), -1) for view in bucket.views if view.dim() > 1]
        keys = [f"{bucket.key}/{number}" for number in range(len(matrices))]
        wanted = [m + self._kept.get(f"{key}/residual", 0.0) for key, m in zip(keys, matrices, strict=True)]
        right = [self._start(key, m) for key, m in zip(keys, matrices, strict=True)]
        left = [m @ q for m, q in zip(wanted, right, strict=True)]
        summed = yield Sum(_packed([*vectors, *left]))
        parts = _like(summed, [*vectors, *left])
        for vector, value in zip(vectors, parts, strict=False):
            vector.copy_(value)
        if not matrices:  # of a flat piece: the second round has nothing to send, on any worker
            return
        left = [torch.linalg.qr(p).Q for p in parts[len(vectors) :]]
        right = [m.T @ p for m, p in zip(wanted, left, strict=True)]
        own = [p @ q.T for p, q in zip(left, right, strict=True)]
        right = _like((yield Sum(_packed(right))), right)
        shaped = [view for view in bucket.views if view.dim() > 1]
        for key, view, m, p, q, mine in zip(keys, shaped, wanted, left, right, own, strict=True):
            self._kept |= {f"{key}/residual": m - mine, f"{key}/start": q.clone()}
            view.copy_((p @ q.T).view(view.shape))

    def _start(self, key: str, matrix: Tensor) -> Tensor:
        """The right factor of the step before; at first one that is the same everywhere."""
        generator = torch.Generator().manual_seed(1)
        drawn = torch.randn(matrix.shape[1], self._rank_of(*matrix.shape), generator=generator, dtype=matrix.dtype)
        return self._kept.get(f"{key}/start", drawn)

    def state(self) -> dict[str, Any]:
        return copy_of(self._kept)

    def load(self, state: dict[str, Any]) -> None:
        self._kept = dict(state)


def _packed(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _like(packed: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    pieces = torch.split(packed, [tensor.numel() for tensor in tensors])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]


class EveryReplica(LocalReplica):
    """Trains alone, and every so many steps takes over the mean of everybody's change since the last time."""

    def __init__(
        self,
        module: nn.Module,
        recipe: OptimizerRecipe,
        group: Group,
        events: Events,
        options: Every,
        transport: Transport,
    ) -> None:
        super().__init__(module, recipe, group, mean_over_all=False)
        self.model = module
        self._events = events
        self._options = options
        self._carrier = transport.carrier(self._parameters, group)
        self._agreed = [p.detach().clone() for p in self._parameters]
        self._made = 0

    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        torch.autograd.backward(loss * self._shares.weight(share))

    def update(self, lr: float) -> None:
        super().update(lr)
        self._made += 1
        if self._made % self._options.every == 0:
            begun = time.perf_counter()
            self._agree()
            self._events.spend("exchange", time.perf_counter() - begun)  # of this update, what was exchange

    @torch.no_grad()
    def _agree(self) -> None:
        changes = [p - agreed for p, agreed in zip(self._parameters, self._agreed, strict=True)]
        self._carrier.agree(changes)
        for p, agreed, change in zip(self._parameters, self._agreed, changes, strict=True):
            p.copy_(agreed.add_(change))

    def settle(self) -> None:
        self._agree()
        share_buffers(self._module, self._group)

    def state(self) -> State:
        own = {"buffers": copy_of(dict(self._module.named_buffers())), "carrier": self._carrier.state()}
        return State(own={**self._trained(), **own, "made": self._made})

    def load(self, state: State) -> None:
        self._load_trained(state.own)
        load_into(dict(self._module.named_buffers()), state.own["buffers"])
        self._carrier.load(state.own["carrier"])
        self._made = state.own["made"]
        self._agreed = [p.detach().clone() for p in self._parameters]  # a state is taken after a settle


class EveryStrategy:
    """Agrees every so many steps, over any transport that can carry changes."""

    def __init__(self, options: Every, transport: Transport) -> None:
        self._options = options
        self._transport = transport

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        return EveryReplica(model, optimizer, group, events, self._options, self._transport)

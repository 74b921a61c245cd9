"""A worker with parameter servers: it pushes gradients to the servers that own them and gets parameters back."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from paceline.errors import CheckpointError
from paceline.record_parts import StrategyFigures
from paceline.strategies.base import Events, Share, State
from paceline.strategies.buffers import share_buffers
from paceline.strategies.codec import BucketViews, OneRoundCodec
from paceline.strategies.gradients import ArrivedGradients
from paceline.strategies.group import Group
from paceline.strategies.local import copy_of, load_into, without_gradient
from paceline.strategies.ps.connection import Servers
from paceline.strategies.ps.flat import FlatModel
from paceline.strategies.ps.wire import Message
from paceline.strategies.shares import Shares
from paceline.strategies.state import StateDict
from paceline.traffic.ps import ParameterServer, ranges


class ParameterServerReplica:
    """A replica whose parameters are owned and updated by servers, each an equal range of them."""

    def __init__(
        self,
        model: nn.Module,
        flat: FlatModel,
        servers: Servers,
        group: Group,
        events: Events,
        options: ParameterServer,
        clip_norm: float | None,
        codec: OneRoundCodec | None = None,
    ) -> None:
        self.model = model
        self._flat = flat
        self._servers = servers
        self._group = group
        self._events = events
        self._sync = options.synchronous
        self._shares = Shares(group, mean_over_all=options.synchronous)
        self._arrived = ArrivedGradients(model)
        self._ranges = {dtype: ranges(size, options.servers) for dtype, size in flat.sizes.items()}
        self._squared_norms: list[float] = []
        self._clip_norm = clip_norm
        self._codec = codec

    def backward(self, loss: Tensor, *, share: Share | None = None, last: bool = True) -> None:
        """Compute gradients weighted by samples: in the mean over all workers (sync), or over this worker."""
        torch.autograd.backward(loss * self._shares.weight(share))

    def exchange(self, samples: int) -> None:
        """Push every range to its server; return when all servers allow this worker to update."""
        self._shares.check(samples)
        missing = self._arrived.missing()
        if missing:
            raise without_gradient(missing)
        self._flat.gradients_to_host()
        pushes = [Message("push", tensors=self._coded(number)) for number in range(len(self._servers))]
        for number, push in enumerate(pushes):
            payload_bytes = sum(t.nbytes for t in push.tensors.values())
            self._events.ready(number, payload_bytes)
            self._events.start(number)
            self._group.tally["to_server"] += payload_bytes
        # the synchronisation point: sync waits for all workers' gradients, stale for the slowest worker
        answers = dict(self._servers.ask(pushes, "go"))
        self._squared_norms = [answers[n].fields.get("squared_norm") or 0.0 for n in range(len(self._servers))]
        self._events.spend("held", max(answer.fields.get("held_seconds", 0.0) for answer in answers.values()))

    def update(self, lr: float) -> None:
        """Let the servers apply the update; return when the new parameters are in the model."""
        self._shares.spend()
        asked = Message("apply", {"lr": lr, "scale": self._scale()})
        begun = time.perf_counter()
        updating_seconds = 0.0
        for number, fields in self._receive([asked] * len(self._servers)):
            updating_seconds = max(updating_seconds, fields["updating_seconds"])
            self._events.end(number)
        # Everything except the servers' own work was communication.
        self._events.spend("exchange", max(0.0, time.perf_counter() - begun - updating_seconds))
        self._flat.clear_gradients()
        self._arrived.reset()

    def _scale(self) -> float:
        """min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; the norm is over all servers."""
        if self._clip_norm is None:
            return 1.0
        return min(1.0, self._clip_norm / (math.sqrt(math.fsum(self._squared_norms)) + 1e-6))

    def _part(self, buffers: dict[str, Tensor], number: int) -> dict[str, Tensor]:
        """The range of each buffer that a server owns, as a view."""
        return {dtype: buffer[self._ranges[dtype][number]] for dtype, buffer in buffers.items()}

    def _coded(self, number: int) -> dict[str, Tensor]:
        """The data that is pushed to a server for its range."""
        part = self._part(self._flat.host_gradients, number)
        if self._codec is None:
            return part
        return {dtype: self._codec.encode(BucketViews(f"{number}/{dtype}", [piece])) for dtype, piece in part.items()}

    def _receive(self, messages: Sequence[Message]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Request parameters and copy them to the model; yield each server's number and answer."""
        for number, answer in self._servers.ask(messages, "parameters"):
            for dtype, target in self._part(self._flat.host_parameters, number).items():
                target.copy_(answer.tensors[dtype])
                self._group.tally["from_server"] += target.nbytes
            yield number, answer.fields
        self._flat.parameters_from_host()

    def _pull(self) -> None:
        for _ in self._receive([Message("pull")] * len(self._servers)):
            pass

    def settle(self) -> None:
        """Synchronise weights, which sync does in every update, and copy rank 0's buffers."""
        if not self._sync and self._group.size > 1:
            self._servers.tell(Message("rest"))  # a late worker must not wait for those that are already here
            self._group.barrier()
            self._pull()
            self._group.barrier()  # no worker updates before all have pulled
        share_buffers(self.model, self._group)

    def report(self) -> StrategyFigures:
        """Server utilisation; without a barrier, also the number of updates between a pull and its update."""
        if self._group.rank != 0:
            return StrategyFigures()
        figures = [answer.fields for answer in self._servers.ask_all(Message("report"), "report")]
        busy = tuple(f["utilisation_percent"] for f in figures)
        if self._sync:
            return StrategyFigures(server_utilisation_percent=busy)
        updates = sum(f["updates"] for f in figures)
        staleness = {
            "mean_staleness": sum(f["staleness_sum"] for f in figures) / updates if updates else None,
            "max_staleness": max(f["staleness_max"] for f in figures) if updates else None,
        }
        return StrategyFigures(figures=staleness, server_utilisation_percent=busy)

    def state(self) -> State:
        """Weights and the servers' optimizer, through rank 0; buffers and the codec's state are this worker's own."""
        if not self._sync:
            self._group.barrier()  # all updates are applied
        shared = {}
        if self._group.rank == 0:
            shared = {"parameters": copy_of(dict(self.model.named_parameters())), **self._optimizer_state()}
        if not self._sync:
            self._group.barrier()  # and no further one is made until all servers have answered
        own: StateDict = {"buffers": copy_of(dict(self.model.named_buffers()))}
        if self._codec is not None:
            own["codec"] = self._codec.state()
        return State(shared=shared, own=own)

    def _optimizer_state(self) -> StateDict:
        """Elementwise state joined over the servers' ranges: it can be loaded with any number of servers."""
        answers = self._servers.ask_all(Message("state"), "state")
        elementwise, scalars = {}, {}
        for path, tensor in answers[0].tensors.items():
            parts = [answer.tensors[path] for answer in answers]
            sizes = [r.stop - r.start for r in self._ranges[path.partition("/")[0]]]
            if [list(part.shape) for part in parts] == [[size] for size in sizes]:
                elementwise[path] = torch.cat(parts)
            else:
                scalars[path] = tensor.clone()
        return {"elementwise": elementwise, "scalars": scalars, **answers[0].fields}

    def load(self, state: State) -> None:
        """Resume from a saved state: rank 0 sends it to the servers, and all workers pull."""
        self._group.barrier()
        if self._group.rank == 0:
            self._load_servers(state.shared)
        for parameter in self.model.parameters():
            if not parameter.requires_grad and self._group.size > 1:
                self._group.broadcast(parameter.data)
        load_into(dict(self.model.named_buffers()), state.own["buffers"])
        if self._codec is not None:
            self._codec.load(state.own.get("codec", {}))  # casts of version 0.1.0 saved nothing
        self._group.barrier()  # the servers hold the saved state
        self._pull()
        self._group.barrier()
        self._group.tally.clear()  # start-up traffic, not counted with the steps

    def _load_servers(self, shared: StateDict) -> None:
        parameters: dict[str, Tensor] = dict(self.model.named_parameters())
        if shared["parameters"].keys() != parameters.keys():
            names = sorted(shared["parameters"].keys() ^ parameters.keys())
            raise CheckpointError(f"The checkpoint belongs to another model: {', '.join(names[:3])} are not in both.")
        for path, tensor in shared["elementwise"].items():
            if tensor.numel() != self._flat.sizes.get(path.partition("/")[0]):
                raise CheckpointError(f"The checkpoint belongs to another model: {tensor.numel()} elements in {path}.")
        load_into(parameters, shared["parameters"])
        fields = {key: shared[key] for key in ("plain", "group", "version")}
        self.hand_over(fields, shared["elementwise"], shared["scalars"])

    def hand_over(self, fields: StateDict, elementwise: dict[str, Tensor], scalars: dict[str, Tensor]) -> None:
        """Send this worker's parameters, and the given optimizer state, to the servers."""
        self._flat.parameters_to_host()
        messages = []
        for number in range(len(self._servers)):
            cut = {path: t[self._ranges[path.partition("/")[0]][number]] for path, t in elementwise.items()}
            parameters = self._part(self._flat.host_parameters, number)
            messages.append(Message("load", fields, {**parameters, **cut, **scalars}))
        for _ in self._servers.ask(messages, "loaded"):
            pass

    def close(self) -> None:
        """Disconnect from the servers, stop those that this worker started, and release the gradients."""
        self._arrived.close()
        self.model.zero_grad(set_to_none=True)
        self._servers.close()

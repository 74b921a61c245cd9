"""Parameter servers: started by rank 0, reached by all workers."""

import secrets
from collections.abc import Sequence

import torch
from torch import nn

from paceline.errors import DeviceError, ServerLost, SpecError
from paceline.grammar import require
from paceline.recipe import OptimizerRecipe
from paceline.strategies.base import Events, Replica
from paceline.strategies.codec import CodecFactory, OneRoundCodec
from paceline.strategies.group import Group
from paceline.strategies.local import start_equal
from paceline.strategies.ps.connection import Servers
from paceline.strategies.ps.flat import FlatModel
from paceline.strategies.ps.launch import ServerConfig, ServerHandle, ServerSite
from paceline.strategies.ps.owned import require_elementwise
from paceline.strategies.ps.replica import ParameterServerReplica
from paceline.traffic.ps import ParameterServer, ranges

_ANYWHERE = ServerSite()
_NOT_STARTED = "not started"


class ParameterServerStrategy:
    """Servers own the parameters: synchronous, asynchronous, or asynchronous within a staleness bound."""

    def __init__(
        self,
        options: ParameterServer,
        codec: CodecFactory | None = None,
        site: ServerSite = _ANYWHERE,
    ) -> None:
        given = options.servers if site.cores is None else len(site.cores)
        require(given == options.servers, f"ps: cores for {given} servers do not match servers={options.servers}.")
        self._options = options
        self._codec = codec
        self._site = site

    def replicate(self, model: nn.Module, optimizer: OptimizerRecipe, group: Group, events: Events) -> Replica:
        """A replica that starts from rank 0's weights; rank 0 also starts the servers."""
        self._check(optimizer)
        start_equal(model, group)
        flat = FlatModel(model)
        servers = self._connect(flat, optimizer, group)
        codec = None if self._codec is None else self._codec()
        assert codec is None or isinstance(codec, OneRoundCodec), "others were refused when the chain was resolved"
        replica = ParameterServerReplica(model, flat, servers, group, events, self._options, optimizer.clip_norm, codec)
        if group.rank == 0:
            replica.hand_over({"version": 0}, {}, {})
        group.barrier()  # no worker pushes to a server that does not hold the parameters yet
        return replica

    def _check(self, recipe: OptimizerRecipe) -> None:
        """Refuse what can be refused before anything is started."""
        if recipe.clip_norm is not None and not self._options.synchronous:
            raise SpecError(
                f"clip_norm={recipe.clip_norm} needs the norm over all workers' gradients, which mode="
                f"{self._options.mode} does not compute: use ps:mode=sync, or leave clipping out."
            )
        require_elementwise(recipe)
        if self._options.device == "gpu" and not torch.cuda.is_available():
            raise DeviceError("ps: device=gpu, but torch finds no GPU: use device=cpu.")

    def _connect(self, flat: FlatModel, recipe: OptimizerRecipe, group: Group) -> Servers:
        token = secrets.randbits(62)  # rank 0's number names this replication in the store
        gathered = group.all_gather(torch.tensor([token, group.node], device=flat.device))
        if len({int(pair[1]) for pair in gathered}) > 1 and self._site.addresses is None:
            raise SpecError("ps: servers listen on one node only, and these workers are on several: use allreduce.")
        keys = [f"ps/{int(gathered[0][0])}/{number}" for number in range(self._options.servers)]
        handles = self._start(flat, recipe, group, keys) if group.rank == 0 else []
        endpoints = [group.lookup(key) for key in keys]
        if _NOT_STARTED in endpoints:
            raise ServerLost(f"Parameter server {endpoints.index(_NOT_STARTED)} did not start.")
        return Servers(endpoints, group.rank, handles, self._site.timeout_seconds)

    def _start(self, flat: FlatModel, recipe: OptimizerRecipe, group: Group, keys: Sequence[str]) -> list[ServerHandle]:
        """Start all servers, then wait for each: importing torch takes most of the start-up time."""
        handles: list[ServerHandle] = []
        try:
            for number in range(self._options.servers):
                handles.append(self._site.launch(self._config(number, flat, recipe, group.size)))
            for key, endpoint in zip(keys, [handle.endpoint() for handle in handles], strict=True):
                group.publish(key, endpoint)
        except BaseException:
            for handle in handles:
                handle.close()
            for key in keys:
                group.publish(key, _NOT_STARTED)
            raise
        return handles

    def _config(self, number: int, flat: FlatModel, recipe: OptimizerRecipe, workers: int) -> ServerConfig:
        cuts = {dtype: ranges(size, self._options.servers)[number] for dtype, size in flat.sizes.items()}
        return ServerConfig(
            number=number,
            workers=workers,
            mode=self._options.mode,
            bound=self._options.bound,
            recipe=recipe,
            sizes={dtype: cut.stop - cut.start for dtype, cut in cuts.items()},
            cores=None if self._site.cores is None else list(self._site.cores[number]),
            address=None if self._site.addresses is None else self._site.addresses[number],
            device="cuda" if self._options.device == "gpu" else "cpu",
            codec=None if self._codec is None else str(self._codec),
        )

"""What parameter servers receive and send: every gradient to its server, every parameter back."""

from dataclasses import dataclass
from typing import Literal, get_args

from paceline.grammar import choose, require
from paceline.traffic.base import Payload, Transfer, settled_buffers

Mode = Literal["sync", "async", "stale"]
Place = Literal["shared", "own"]
ServerDevice = Literal["cpu", "gpu"]

DEFAULT_BOUND = 3


@dataclass(frozen=True, kw_only=True)
class ParameterServer:
    """Servers hold the parameters and the optimizer; workers push gradients and get parameters back."""

    servers: int = 1
    """Server processes; each owns an equal range of all parameters, large tensors split between them."""

    mode: Mode = "sync"
    """sync: one update from all workers' gradients. async: one per worker. stale: async within a bound."""

    bound: int | None = None
    """stale only: steps a worker may be ahead of the slowest; 3 unless given."""

    place: Place | None = None
    """shared: servers run on the workers' devices. own: on devices of their own. By default own where one is free."""

    device: ServerDevice = "cpu"
    """What servers update on."""

    def __post_init__(self) -> None:
        require(1 <= self.servers <= 64, f"ps: servers={self.servers} is not valid: it must be from 1 to 64.")
        choose(self.mode, get_args(Mode), "mode of ps")
        choose(self.place or "own", get_args(Place), "place of ps")
        choose(self.device, get_args(ServerDevice), "device of ps")
        if self.mode == "stale" and self.bound is None:
            object.__setattr__(self, "bound", DEFAULT_BOUND)  # records show the bound that held
        require(
            self.mode == "stale" or self.bound is None,
            f"ps: bound={self.bound} has no meaning with mode={self.mode}: leave it out, or use mode=stale.",
        )
        require(self.bound is None or self.bound >= 0, f"ps: bound={self.bound} must be at least 0.")

    @property
    def synchronous(self) -> bool:
        """Whether all workers arrive before any may update."""
        return self.mode == "sync"

    def transfers(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """All gradients to the servers, all parameters back; after a settle everyone holds the same again."""
        total = sum(payload.gradient_bytes)
        agree = () if self.synchronous or workers == 1 else (Transfer("from_server", total, per="settle"),)
        return (
            Transfer("to_server", total),
            Transfer("from_server", total),
            *agree,
            *settled_buffers(payload, workers),
        )

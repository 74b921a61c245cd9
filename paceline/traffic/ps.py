"""The traffic of parameter servers: every gradient to its server, every parameter back."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal, get_args

from paceline.grammar import choose, require
from paceline.traffic.base import BucketShape, MessageClaim, Payload, Transfer, settled_buffers
from paceline.traffic.members import CodecClaim, TransportClaim

Mode = Literal["sync", "async", "stale"]
Place = Literal["shared", "own"]
ServerDevice = Literal["cpu", "gpu"]

DEFAULT_BOUND = 3


def ranges(elements: int, parts: int) -> list[slice]:
    """`parts` consecutive ranges whose lengths differ by at most one element: each server's share of a flat buffer."""
    borders = [elements * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(borders)]


@dataclass(frozen=True, kw_only=True)
class ParameterServer(TransportClaim):
    """Servers hold the parameters and the optimizer; workers push gradients and get parameters back."""

    rounds_of_codec: ClassVar[int | None] = 1
    coded: ClassVar[str] = "the push"
    carries_changes: ClassVar[bool] = False

    servers: int = 1
    """Server processes; each owns an equal range of all parameters, large tensors split between them."""

    mode: Mode = "sync"
    """sync: one update from all workers' gradients. async: one update per worker. stale: async within a bound."""

    bound: int | None = None
    """stale only: steps a worker may be ahead of the slowest; 3 unless given."""

    place: Place | None = None
    """shared: servers run on the workers' devices. own: on devices of their own. By default own where one is free."""

    device: ServerDevice = "cpu"
    """The device on which servers update."""

    def __post_init__(self) -> None:
        require(1 <= self.servers <= 64, f"ps: servers={self.servers} is not valid: it must be from 1 to 64.")
        choose(self.mode, get_args(Mode), "mode of ps")
        choose(self.place or "own", get_args(Place), "place of ps")
        choose(self.device, get_args(ServerDevice), "device of ps")
        if self.mode == "stale" and self.bound is None:
            object.__setattr__(self, "bound", DEFAULT_BOUND)  # records show the bound that applied
        require(
            self.mode == "stale" or self.bound is None,
            f"ps: bound={self.bound} cannot be combined with mode={self.mode}: leave it out, or use mode=stale.",
        )
        require(self.bound is None or self.bound >= 0, f"ps: bound={self.bound} is not valid: it must be at least 0.")

    @property
    def synchronous(self) -> bool:
        """Whether all workers arrive before any may update."""
        return self.mode == "sync"

    @property
    def server_place(self) -> Place | None:
        """Where servers run; None for devices of their own if some are free."""
        return self.place

    @property
    def needs_gpu(self) -> bool:
        """Whether servers update on a GPU."""
        return self.device == "gpu"

    @property
    def clipping_refused(self) -> str | None:
        """Without a barrier, no server ever has the gradients of all workers."""
        if self.synchronous:
            return None
        return (
            f"ps:mode={self.mode} is not possible: there is no common gradient to take the norm of. "
            "Use mode=sync, or leave --clip-norm out."
        )

    def messages(self, payload: Payload, codec: CodecClaim | None, workers: int) -> tuple[MessageClaim, ...]:
        """All gradients to the servers, encoded if there is a codec, and all parameters back."""
        total = sum(payload.gradient_bytes)
        if not total:
            return ()
        pushed = total if codec is None else sum(codec.coded_bytes(part)[0] for part in self._parts(payload))
        everything = tuple(range(len(payload.gradient_bytes)))
        whole = BucketShape(total, ((payload.elements,),), everything)
        return (MessageClaim(whole, (Transfer("to_server", pushed), Transfer("from_server", total)), 0.0, False),)

    def _parts(self, payload: Payload) -> list[BucketShape]:
        """Each server's range of all gradients, as flat pieces."""
        sizes = [cut.stop - cut.start for cut in ranges(payload.elements, self.servers)]
        return [BucketShape(size * payload.element_bytes, ((size,),)) for size in sizes]

    def settled(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """Buffers; without a barrier, all workers also pull the same parameters."""
        total = sum(payload.gradient_bytes)
        agree = () if self.synchronous or workers == 1 else (Transfer("from_server", total, per="settle"),)
        return (*agree, *settled_buffers(payload, workers))

    def with_servers(self, servers: int) -> "ParameterServer":
        """The same transport with this many servers."""
        return replace(self, servers=servers)

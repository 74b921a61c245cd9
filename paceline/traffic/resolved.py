"""A validated strategy: its schedule, codec and transport."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from paceline import grammar
from paceline.errors import SpecError
from paceline.traffic.base import MessageClaim, Payload, Transfer, added_up
from paceline.traffic.members import CodecClaim, Kind, Member, ScheduleClaim, TransportClaim


@dataclass(frozen=True)
class ChosenMember:
    """One part of a chain: its name, its entry in the catalogue, and its options."""

    name: str
    member: Member
    claim: Any

    def __str__(self) -> str:
        return grammar.write(self.name, self.claim)


@dataclass(frozen=True)
class ResolvedStrategy:
    """The parts of a chain, and what plans, workers and projections need to know about them together.

    Without a schedule, replicas exchange gradients in every step; without a codec, these are sent unencoded.
    """

    chosen: tuple[ChosenMember, ...]
    """At most one of each kind, in the order schedule, codec, transport."""

    def __post_init__(self) -> None:
        schedule, codec, transport = self.part("schedule"), self.part("codec"), self.part("transport")
        if schedule is not None and not schedule.claim.exchanges:
            if extra := codec or transport:
                raise SpecError(f"{schedule.name} exchanges nothing, so {extra} cannot follow it: leave one out.")
            return
        if transport is None:
            named = "+".join(str(part) for part in self.chosen)
            raise SpecError(f"{named} has no transport: write {named}+allreduce, or another transport.")
        if schedule is not None:
            _refuse_changes(schedule, transport)
        most = transport.claim.rounds_of_codec
        if codec is not None and most is not None and len(codec.claim.patterns) > most:
            raise SpecError(
                f"{codec.name} takes {len(codec.claim.patterns)} rounds, but {transport.name} supports {most}: use "
                f"{codec}+allreduce, or a codec of one round."
            )

    def __str__(self) -> str:
        return "+".join(str(part) for part in self.chosen)

    def part(self, kind: Kind) -> ChosenMember | None:
        """The schedule, codec or transport of the chain; None if it has none."""
        return next((part for part in self.chosen if part.member.kind == kind), None)

    @property
    def schedule(self) -> ScheduleClaim | None:
        """The schedule; None if gradients are exchanged in every step."""
        part = self.part("schedule")
        return None if part is None else part.claim

    @property
    def codec(self) -> CodecClaim | None:
        """The codec of each bucket; None if it is sent unencoded."""
        part = self.part("codec")
        return None if part is None else part.claim

    @property
    def transport(self) -> TransportClaim | None:
        """The transport; None if nothing is sent."""
        part = self.part("transport")
        return None if part is None else part.claim

    # What a plan needs to know

    @property
    def exchanges(self) -> bool:
        """Whether replicas ever synchronise."""
        return self.transport is not None

    @property
    def every(self) -> int:
        """Steps from one synchronisation to the next."""
        return 1 if self.schedule is None else self.schedule.every

    @property
    def synchronous(self) -> bool:
        """Whether in every step all workers arrive before any may update; with a schedule, each updates by itself."""
        return self.transport is not None and self.transport.synchronous and self.schedule is None

    @property
    def same_steps(self) -> bool:
        """Whether all workers must make the same number of steps, because they wait for one another at some point."""
        return self.transport is not None and self.transport.synchronous

    @property
    def servers(self) -> int:
        """Server processes it starts."""
        return 0 if self.transport is None else self.transport.servers

    @property
    def bound(self) -> int | None:
        """Steps that a worker may be ahead of the slowest; None if there is no bound, or no lead at all."""
        return None if self.transport is None else self.transport.bound

    @property
    def server_place(self) -> Literal["shared", "own"] | None:
        """Where servers run; None for devices of their own if some are free, or if there are no servers."""
        return None if self.transport is None else self.transport.server_place

    @property
    def needs_gpu(self) -> bool:
        """Whether it cannot run without a GPU."""
        return self.transport is not None and self.transport.needs_gpu

    @property
    def overlaps(self) -> bool:
        """Whether an exchange may start before the end of backward."""
        return self.transport is not None and self.transport.overlaps and self.schedule is None

    @property
    def reduction(self) -> Literal["mean", "sum"]:
        """The applied gradient: the mean over all workers' samples, or the sum of the workers' means."""
        return "mean" if self.transport is None else self.transport.reduction

    @property
    def clipping_refused(self) -> str | None:
        """Why gradients cannot be clipped by their norm, as `NAME is not possible: …. REMEDY`; None if they can."""
        return None if self.transport is None else self.transport.clipping_refused

    # What is sent

    def messages(self, payload: Payload, workers: int) -> tuple[MessageClaim, ...]:
        """The messages of one synchronisation, in sending order."""
        if self.transport is None:
            return ()
        messages = self.transport.messages(payload, self.codec, workers)
        if self.schedule is None:
            return messages
        work = self.schedule.passes + (self.codec.passes(workers) if self.codec is not None else 0.0)
        return tuple(self._change(message, work) for message in messages)

    def _change(self, message: MessageClaim, passes: float) -> MessageClaim:
        rounds = tuple(replace(transfer, every=self.every) for transfer in message.rounds)
        return replace(message, rounds=rounds, passes=passes, overlaps=False)

    def transfers(self, payload: Payload, workers: int) -> tuple[Transfer, ...]:
        """The transfers of one worker in a step, every few steps, and at a settle."""
        if self.transport is None:
            return ()  # not even buffers: the replicas do not synchronise
        moved = [transfer for message in self.messages(payload, workers) for transfer in message.rounds]
        # A settle also synchronises parameters, wherever it falls between two synchronisations.
        agreed = [replace(t, per="settle", every=1) for t in moved] if self.schedule is not None else []
        return added_up([*moved, *agreed, *self.transport.settled(payload, workers)])

    # Variants of the strategy

    def regrouped(self, bucket: int | None) -> "ResolvedStrategy | None":
        """The same strategy with buckets of this many bytes, or of the default size; None if it does not group."""
        return self._with_transport(None if self.transport is None else self.transport.regrouped(bucket))

    def with_servers(self, servers: int) -> "ResolvedStrategy | None":
        """The same strategy with this many servers; None if it has none."""
        return self._with_transport(None if self.transport is None else self.transport.with_servers(servers))

    def with_codec(self, name: str, member: Member) -> "ResolvedStrategy | None":
        """The same strategy with this codec; None if it already has one, or sends nothing."""
        if self.transport is None or self.codec is not None:
            return None
        coded = ChosenMember(name, member, member.claim())
        return ResolvedStrategy((*self.chosen[:-1], coded, self.chosen[-1]))

    def _with_transport(self, claim: TransportClaim | None) -> "ResolvedStrategy | None":
        if claim is None:
            return None
        return ResolvedStrategy((*self.chosen[:-1], replace(self.chosen[-1], claim=claim)))


def _refuse_changes(schedule: ChosenMember, transport: ChosenMember) -> None:
    if not transport.claim.carries_changes:
        raise SpecError(
            f"{schedule} lets workers update by themselves, but with {transport.name} only servers update: "
            f"use {schedule}+allreduce."
        )
    option = transport.claim.meaningless_for_changes()
    if option is not None:
        raise SpecError(
            f"{transport.name}:{option} cannot be combined with {schedule}: "
            "its payload is complete only after an update. Leave it out."
        )

"""From a resolved strategy to its implementation; each part is imported when it is needed."""

from typing import Any

from paceline.strategies.base import Strategy
from paceline.strategies.codec import CodecFactory
from paceline.strategies.ps.launch import ServerSite
from paceline.traffic import catalogue
from paceline.traffic.members import KINDS
from paceline.traffic.resolved import ResolvedStrategy

_ANYWHERE = ServerSite()


def build(strategy: ResolvedStrategy | str, site: ServerSite = _ANYWHERE) -> Strategy:
    """The implementation of a strategy; `site` says where its servers run and listen, and what starts them."""
    resolved = catalogue.resolve(strategy) if isinstance(strategy, str) else strategy
    schedule, codec, transport = (resolved.part(kind) for kind in KINDS)
    carrier: Any = None
    if transport is not None:
        servers = {"site": site} if resolved.servers else {}
        factory = None if codec is None else CodecFactory(codec)
        carrier = transport.member.implemented()(transport.claim, factory, **servers)
    built: Strategy = carrier if schedule is None else schedule.member.implemented()(schedule.claim, carrier)
    return built

"""From a resolved strategy to its implementation; each part is imported when it is needed."""

from typing import Any

from paceline.strategies.base import Strategy
from paceline.strategies.codec import CodecFactory
from paceline.strategies.ps.launch import ServerSite
from paceline.traffic import catalogue
from paceline.traffic.resolved import ResolvedStrategy

_ANYWHERE = ServerSite()


def build(strategy: ResolvedStrategy | str, site: ServerSite = _ANYWHERE) -> Strategy:
    """The implementation of a strategy; `site` says where its servers run and listen, and what starts them."""
    resolved = catalogue.resolve(strategy) if isinstance(strategy, str) else strategy
    when, what, how = resolved.part("when"), resolved.part("what"), resolved.part("how")
    transport: Any = None
    if how is not None:
        servers = {"site": site} if resolved.servers else {}
        transport = how.member.implemented()(how.claim, None if what is None else CodecFactory(what), **servers)
    built: Strategy = transport if when is None else when.member.implemented()(when.claim, transport)
    return built

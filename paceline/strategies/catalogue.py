"""The strategies by name: from their options to what carries them out."""

from collections.abc import Callable, Sequence

from paceline.strategies.allreduce import AllReduceStrategy
from paceline.strategies.base import Strategy
from paceline.strategies.independent import IndependentStrategy
from paceline.strategies.launch import ServerConfig, ServerHandle, ServerProcess
from paceline.strategies.ps import ParameterServerStrategy
from paceline.traffic import catalogue
from paceline.traffic.allreduce import AllReduce
from paceline.traffic.independent import Independent
from paceline.traffic.ps import ParameterServer


def build(
    text: str,
    *,
    server_cores: Sequence[Sequence[int]] | None = None,
    server_addresses: Sequence[str] | None = None,
    launch: Callable[[ServerConfig], ServerHandle] = ServerProcess,
) -> Strategy:
    """The strategy that `text` names; where its servers run and listen, and what starts them, if it has any."""
    match catalogue.resolve(text):
        case Independent():
            return IndependentStrategy()
        case AllReduce() as options:
            return AllReduceStrategy(options)
        case ParameterServer() as options:
            return ParameterServerStrategy(
                options, server_cores=server_cores, server_addresses=server_addresses, launch=launch
            )
        case unknown:
            raise AssertionError(f"strategy {unknown!r} has no implementation")

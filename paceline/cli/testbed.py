"""`paceline testbed`: emulate several hosts on this machine, link them at a chosen bandwidth, and run on them."""

from typing import Annotated

import typer
import typer.core

from paceline.errors import SpecError
from paceline.grammar import choose
from paceline.testbed.hosts import Testbed, site

_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Arguments after the flags belong to the verb."""

_USAGE = "--nodes N --bandwidth RATE -- train|study …"
_VERBS = ("train", "study")
_EXAMPLES = """
Examples:

  paceline testbed --nodes 2 --bandwidth 1Gbps -- train resnet18:image=64 --workers 2 --steps 50

  paceline testbed --nodes 3 --bandwidth 1Gbps,n2=100Mbps -- train vae --workers 6 --workers-per-device 3 --steps 100

  paceline testbed --nodes 2 --bandwidth 1Gbps -- study vae --workers 1,2 --network 100Mbps --network 1Gbps --seconds 10
"""


def make(
    context: typer.Context,
    nodes: Annotated[int, typer.Option(help="How many hosts to emulate; workers are divided among them.")],
    bandwidth: Annotated[
        str,
        typer.Option(help="Bandwidth of every host's link, in each direction: 1Gbps; or by host: n0=1Gbps,n1=100Mbps."),
    ],
    latency: Annotated[
        str | None, typer.Option(help="Latency to add between hosts: 50us. Needs netem in the kernel.")
    ] = None,
) -> None:
    """Emulate several hosts on this machine, with real links of a chosen bandwidth, and train or study on them.

    Links are measured before every run, and everything is removed afterwards. Needs root and iproute2.
    """
    place = site(nodes, bandwidth if latency is None else f"{bandwidth},latency={latency}")
    if not context.args:
        raise SpecError("Say what to run in the testbed: paceline testbed --nodes 2 --bandwidth 1Gbps -- train …")
    verb, *arguments = context.args
    choose(verb, _VERBS, "verb for a testbed")
    assert context.parent is not None, "the root of the command line"
    root = context.parent.command
    assert isinstance(root, typer.core.TyperGroup)
    command = root.get_command(context, verb)
    assert command is not None, "it is one of _VERBS"
    with Testbed(place) as made, command.make_context(verb, arguments, parent=context, obj=made) as inner:
        command.invoke(inner)


make.__doc__ = f"{make.__doc__}\n{_EXAMPLES}"
app = typer.Typer(add_completion=False, rich_markup_mode="rich")
app.command("testbed", context_settings=_SETTINGS, options_metavar=_USAGE)(make)

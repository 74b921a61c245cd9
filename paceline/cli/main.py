"""The command line: its verbs, one handler for every error, and the exit codes 0, 1 and 2."""

import errno
import os
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from paceline import __version__
from paceline.cli.verbs import VerbGroup
from paceline.errors import PacelineError

_FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="paceline",
    cls=VerbGroup,
    help="Train PyTorch models data-parallel, measure how they scale, and explain why.",
    epilog="`paceline COMMAND --help` explains a command and gives examples.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing Rich takes longer than everything else that this page needs
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"paceline {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; a wrong request or a failed run ends with a short message, never with a traceback."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _as_interrupt)
    try:
        app()
    except PacelineError as error:
        print(f"paceline: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print would fail again
        print(f"paceline: {error.strerror}: make room for the output, and run again.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("paceline: Stopped by the user.", file=sys.stderr)
        sys.exit(1)


def _as_interrupt(_signal: int, _frame: FrameType | None) -> None:
    """Stop a run cleanly on SIGTERM or when the terminal closes, as Ctrl-C does."""
    raise KeyboardInterrupt

"""The entry point of a worker process: its output, cores and signals, and how its errors are reported."""

import io
import os
import signal
import sys
import tempfile
import traceback
from multiprocessing.connection import Connection

from paceline import netns
from paceline.devices.cpu import bf16_kernels_work
from paceline.errors import PacelineError
from paceline.workers.assignment import Assignment, Handles
from paceline.workers.link import ParentLink
from paceline.workers.messages import Failed, Finished


def main(assignment: Assignment, connection: "Connection[bytes, bytes]", handles: Handles) -> None:
    """Run the assignment and exit; the parent receives either the report or the error."""
    if assignment.host is not None:
        netns.enter(assignment.host.namespace)  # before any thread or socket: both belong to where they began
    os.setpgid(0, 0)  # this worker and its loaders are one process group, ended as one
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends the run in order
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the server that this process was forked from ignores it
    os.environ.update(assignment.environment)
    tempfile.tempdir = str(assignment.scratch)  # removed by the parent, whatever happens here
    _redirect_output(assignment)
    if assignment.slot.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, assignment.slot.cores)
    if assignment.spec.precision == "bf16" and assignment.placement.kind == "cpu" and not bf16_kernels_work():
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"  # read at oneDNN's first use, which is still to come
    link = ParentLink(connection, assignment.scratch)
    try:
        from paceline.workers.run import run

        link.send(Finished(report=run(assignment, link, handles)))
    except BaseException as error:
        # Peers may be stuck in a collective with this worker, so nothing is torn down in order: report, and leave.
        traceback.print_exc()
        kind = type(error).__name__ if isinstance(error, PacelineError) else "WorkerFailed"
        text = str(error) if isinstance(error, PacelineError) else f"{type(error).__name__}: {error}{_hint(error)}"
        link.send(Failed(error=kind, message=text, step=link.step))
        _leave(1)
    _leave(0)


def _hint(error: BaseException) -> str:
    """A remedy for errors of torch that the choice of the batch causes."""
    if "more than 1 value per channel" in str(error):
        return " — an uneven last batch left this worker one sample: choose a --batch that divides the data."
    return ""


def _redirect_output(assignment: Assignment) -> None:
    log = os.open(assignment.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # the last lines must be there when the process is killed


def _leave(code: int) -> None:
    """Exit without torch's tear-down, which can wait for peers that have ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

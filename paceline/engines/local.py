"""Run workers as processes of this machine: start them, watch them, and end them whatever happens."""

import contextlib
import dataclasses
import math
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from paceline import netns
from paceline.devices import cuda
from paceline.engines.base import Display
from paceline.engines.collect import collect
from paceline.engines.forking import forking_context
from paceline.engines.plan import Plan
from paceline.engines.watch import Failure, Watched, cause, failure_from
from paceline.errors import Hang, Interrupted, PacelineError, RequestError, ServerLost, WorkerFailed, WorkerLost
from paceline.netns import Host
from paceline.network import Site
from paceline.record import Record
from paceline.record_parts import MeasuredNetwork
from paceline.strategies.ps.spare import serve_on_request
from paceline.testbed.hosts import Testbed
from paceline.testbed.watch import LinkWatch
from paceline.workers import messages
from paceline.workers.assignment import Assignment, Handles, log_of
from paceline.workers.messages import AnyMessage, Order
from paceline.workers.process import main
from paceline.workers.report import WorkerReport

_LOOK_EVERY_SECONDS = 0.5
_SETTLE_SECONDS = 1.0  # after a first failure: time for the true cause to show itself
_STOP_SECONDS = 15.0  # after Ctrl-C: time for an orderly end,
_STOP_STEPS = 4  # or so many steps, if they take longer
_SAME_WISH_SECONDS = 0.3
_LEAVE_SECONDS = 5.0
_LAST_LINES = 10
_NO_CAUSE = "The hostname of the client socket cannot be retrieved"  # torch: hosts of a testbed have only addresses


class LocalEngine:
    """Runs a plan on this machine, or on the hosts of a testbed on it."""

    def __init__(self, testbed: Testbed | None = None) -> None:
        self._testbed = testbed
        self.site = testbed.site if testbed is not None else Site()

    def run(self, plan: Plan, out: Path, display: Display) -> Record:
        """Execute a plan; record and sidecar are in `out` afterwards."""
        links = self._links(plan)  # the testbed's time, not the run's
        begun = time.perf_counter()
        scratch = Path(tempfile.mkdtemp(prefix="paceline-"))
        no_mps: dict[str, str] = {}
        mps = cuda.mps_daemon() if plan.spec.mps else contextlib.nullcontext(no_mps)
        try:
            with mps as extra, WorkerProcesses(plan, scratch, out / "checkpoints", extra, links) as workers:
                reports = workers.supervise(display)
            seconds, network = time.perf_counter() - begun, None
            if links is not None and plan.spec.network is not None:
                network = MeasuredNetwork(asked=plan.spec.network, nodes=links.finished())
            return collect(plan, reports, scratch, out, wall_seconds=seconds, network=network)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _links(self, plan: Plan) -> LinkWatch | None:
        """The links between the run's nodes, measured; one node needs no link."""
        if plan.spec.nodes == 1:
            return None
        assert self._testbed is not None, "planned for this site"
        assert plan.spec.network is not None, "planned for several nodes"
        return self._testbed.watch(plan.spec.network, plan.spec.nodes, plan.spec.slow_motion)


class WorkerProcesses:
    """The worker processes of one run; leaving the context ends them and every process they started."""

    def __init__(
        self,
        plan: Plan,
        scratch: Path,
        checkpoints: Path,
        environment: dict[str, str],
        links: LinkWatch | None = None,
    ) -> None:
        self._plan = plan
        self._links = links
        self._hosts: Sequence[Host] = links.hosts if links is not None else ()
        self._scratch = scratch
        self._failures: list[Failure] = []
        self._stop_before: float | None = None
        self._asked_to_stop = -math.inf
        self._processes: list[ForkServerProcess] = []
        self._servers: list[ForkServerProcess] = []
        self._connections: list[Connection[bytes, bytes]] = []
        self._watched = [Watched(rank) for rank in range(plan.spec.workers)]
        variables = {**os.environ, **environment}
        self._context = forking_context()
        try:
            self._start(checkpoints, variables)
        except BaseException:
            self.__exit__()
            raise

    def _start(self, checkpoints: Path, variables: dict[str, str]) -> None:
        plan, scratch = self._plan, self._scratch
        servers = [self._start_server(number) for number in range(plan.traffic.servers)]
        with self._listener() as listener:
            for rank in range(plan.spec.workers):
                assignment = Assignment(
                    spec=plan.spec,
                    strategy=plan.traffic,
                    placement=plan.placement,
                    rank=rank,
                    store=listener.getsockname(),
                    paces=plan.paces,
                    hosts=self._hosts,
                    scratch=scratch,
                    checkpoints=checkpoints,
                    environment=variables,
                )
                self._start_worker(assignment, Handles(listener, servers) if rank == 0 else Handles())
        for connection in servers:
            connection.close()  # rank 0's is the only other end now: when it is gone, so are the servers

    def _listener(self) -> socket.socket:
        """A socket for the store that rank 0 will own: on loopback, or on the address of rank 0's host."""
        if not self._hosts:
            return socket.create_server(("127.0.0.1", 0), backlog=self._plan.spec.workers)
        host = self._hosts[self._plan.placement.workers[0].node]
        return netns.inside(
            host.namespace, lambda: socket.create_server((host.address, 0), backlog=self._plan.spec.workers)
        )

    def _start_worker(self, assignment: Assignment, handles: Handles) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=main, args=(assignment, theirs, handles), name=f"worker-{assignment.rank}"
        )
        with _undisturbed():
            process.start()
            self._processes.append(process)
        theirs.close()
        self._connections.append(ours)

    def _start_server(self, number: int) -> "Connection[bytes, bytes]":
        ours, theirs = self._context.Pipe()
        log = self._scratch / f"server-{number}.log"
        host = self._hosts[self._plan.placement.servers[number].node] if self._hosts else None
        process = self._context.Process(target=serve_on_request, args=(theirs, log, host), name=f"server-{number}")
        with _undisturbed():
            process.start()
            self._servers.append(process)
        theirs.close()
        return ours

    def __enter__(self) -> "WorkerProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)  # its loaders
        for process in self._processes:
            process.join()
            _wait_for_group(process.pid or 0)
        for server in self._servers:
            server.join(_LEAVE_SECONDS)  # it ends when its worker is gone
            server.kill()
            server.join()
        for connection in self._connections:
            connection.close()

    def supervise(self, display: Display) -> list[WorkerReport]:
        """Follow the workers until all have reported; raise what went wrong."""
        with _noted_signals() as noted:
            while any(w.report is None for w in self._watched):
                if noted:
                    self._obey(noted[0], display)
                    noted.clear()  # a signal to the process and to its group is one wish
                self._listen(display, _LOOK_EVERY_SECONDS)
                if self._links is not None:
                    self._links.look()
                if self._failures:
                    self._raise_cause(display)
                self._look_for_hangs(display)
                if self._stop_before is not None and time.monotonic() > self._stop_before:
                    raise Interrupted("Stopped by the user; the workers did not stop in time.")
        until = time.monotonic() + _LEAVE_SECONDS
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))  # they have reported, and leave by themselves
        return [w.report for w in self._watched if w.report is not None]

    def _listen(self, display: Display, seconds: float) -> None:
        """Handle the messages that arrive within `seconds`, and notice workers that have ended."""
        sources: dict[Any, int] = {}
        for rank, watched in enumerate(self._watched):
            if watched.report is None and all(f.rank != rank for f in self._failures):
                sources[self._connections[rank]] = rank
                sources[self._processes[rank].sentinel] = rank
        for source in wait(list(sources), timeout=seconds):
            rank = sources[source]
            self._drain(rank, display)
            if source is not self._connections[rank]:
                self._note_lost(rank)
        self._note_lost_servers()

    def _drain(self, rank: int, display: Display) -> None:
        connection = self._connections[rank]
        with contextlib.suppress(EOFError, OSError):
            while connection.poll():
                self._handle(rank, messages.decode(connection.recv_bytes()), display)

    def _handle(self, rank: int, message: AnyMessage, display: Display) -> None:
        watched = self._watched[rank]
        match message:
            case messages.Finished(report=report):
                watched.report = report
            case messages.Failed():
                self._failures.append(failure_from(rank, message))
            case messages.Located():
                watched.location = message
            case messages.Waiting():
                watched.waiting = True
            case messages.Precise():
                watched.precise = True
                if all(w.precise for w in self._watched):
                    self._order("all precise")
            case messages.Ready(step=step, total_steps=total):
                watched.progressed(step)
                if rank == 0:
                    display.ready(step=step, total_steps=total)
            case messages.Advanced(step=step, phase=phase, samples=samples, loss=loss):
                watched.progressed(step)
                if rank == 0 and phase == "training":
                    display.progress(step=step, samples=samples, loss=loss)
            case messages.Validated(validation=validation):
                display.validation(validation)

    def _note_lost(self, rank: int) -> None:
        if self._watched[rank].report is not None or any(f.rank == rank for f in self._failures):
            return
        how = _how_it_ended(self._processes[rank].exitcode)
        step = self._watched[rank].step
        when = f"after step {step}" if step is not None else "during start-up"
        self._failures.append(Failure(rank, WorkerLost, f"Worker {rank} {how} {when}.", weight=2))

    def _note_lost_servers(self) -> None:
        if all(w.report is None for w in self._watched):
            for number, server in enumerate(self._servers):
                if server.exitcode and all(f.error is not ServerLost or f.weight < 2 for f in self._failures):
                    lines = "".join(f"\n  {line}" for line in last_lines(self._scratch / f"server-{number}.log"))
                    text = f"Parameter server {number} {_how_it_ended(server.exitcode)}.{lines}"
                    self._failures.append(Failure(0, ServerLost, text, weight=2))

    def _raise_cause(self, display: Display) -> None:
        until = time.monotonic() + _SETTLE_SECONDS
        while (left := until - time.monotonic()) > 0 and len(self._failures) < len(self._watched):
            self._listen(display, left)
        failure = cause(self._failures)
        if failure.weight == 0 and (trouble := self._trouble_of_links()) is not None:
            failure = dataclasses.replace(failure, message=f"{trouble} Worker {failure.rank} failed: {failure.message}")
        raise self._describe(failure)

    def _trouble_of_links(self) -> str | None:
        """Which link is cut or slow, where nothing else explains a failure; ends the workers, which use the links."""
        if self._links is None:
            return None
        self.__exit__()
        return self._links.trouble()

    def _describe(self, failure: Failure) -> PacelineError:
        if issubclass(failure.error, RequestError):
            return failure.error(failure.message)
        message = failure.message
        if failure.error not in (WorkerLost, WorkerFailed, Hang):
            return failure.error(message)  # it says all there is to say
        if f"orker {failure.rank}" not in message:
            message = f"Worker {failure.rank} failed: {message}"
        lines = last_lines(log_of(self._scratch, failure.rank))
        if lines:
            message += f"\nLast lines of worker {failure.rank}:\n" + "\n".join(f"  {line}" for line in lines)
        return failure.error(message)

    def _look_for_hangs(self, display: Display) -> None:
        timeout = self._plan.spec.timeout
        late = [w for w in self._watched if w.late_seconds(timeout) is not None]
        if not late or (all(w.waiting for w in late) and len(late) < sum(w.report is None for w in self._watched)):
            return  # who waits for others that still work does not hang
        late = [w for w in late if not w.waiting] or late
        for watched in self._watched:
            if watched.report is None:
                with contextlib.suppress(OSError):
                    self._connections[watched.rank].send_bytes(messages.encode_order("locate"))
        until = time.monotonic() + _SETTLE_SECONDS
        while (left := until - time.monotonic()) > 0:
            self._listen(display, left)
        # Those who wait in exchange wait for someone: who does not answer, or is elsewhere, holds them up.
        silent = [w for w in late if w.location is None]
        elsewhere = [w for w in late if w.location is not None and w.location.phase != "exchange"]
        held_up_by = (silent or elsewhere or late)[0]
        seconds = held_up_by.late_seconds(timeout) or 0.0
        doing = "does not answer" if held_up_by.location is None else f"is in {held_up_by.location.phase}"
        seen = (
            f"Worker {held_up_by.rank} made no progress for {seconds:.0f} s after step {held_up_by.step}; it {doing}."
        )
        trouble = self._trouble_of_links()
        message = f"{trouble}\n{seen}" if trouble else f"{seen} If steps are that slow, raise --timeout."
        raise self._describe(Failure(held_up_by.rank, Hang, message, weight=2))

    def _obey(self, signalled: Callable[[], object], display: Display) -> None:
        """Call the handler of a noted signal; if it interrupts, stop the run cleanly."""
        try:
            signalled()
        except KeyboardInterrupt:
            self._begin_to_stop(display)

    def _begin_to_stop(self, display: Display) -> None:
        if time.monotonic() - self._asked_to_stop < _SAME_WISH_SECONDS:
            return  # a signal to the process and to its group is one wish
        self._asked_to_stop = time.monotonic()
        if self._stop_before is not None or any(w.step is None for w in self._watched):
            raise Interrupted("Stopped by the user at once; nothing was recorded.")
        display.note("Stopping after this step; the record will be written. Ctrl-C again to stop at once.")
        slowest = max(w.step_seconds for w in self._watched)
        self._stop_before = time.monotonic() + max(_STOP_SECONDS, _STOP_STEPS * slowest)
        self._order("stop")

    def _order(self, order: Order) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.send_bytes(messages.encode_order(order))


@contextlib.contextmanager
def _noted_signals() -> Iterator[list[Callable[[], object]]]:
    """Note the signals that ask to stop, each as a call of the handler that it would have reached."""
    noted: list[Callable[[], object]] = []
    in_main = threading.current_thread() is threading.main_thread()  # signals are nobody else's business
    stoppers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if in_main else ()
    before = {number: handler for number in stoppers if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(
            number, lambda number, frame: noted.append(partial(before[signal.Signals(number)], number, frame))
        )
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay signals: if one interrupted the start of a process, nobody would own and end that process."""
    with _noted_signals() as noted:
        yield
    if noted:
        noted[0]()


def _how_it_ended(code: int | None) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exited with {code}"


def last_lines(path: Path, count: int = _LAST_LINES) -> list[str]:
    """The last lines of a log, without empty ones."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip() and _NO_CAUSE not in line][-count:]


def _wait_for_group(process_group: int) -> None:
    """Return when the last process of a killed group is gone."""
    until = time.monotonic() + _LEAVE_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(process_group, 0)
            time.sleep(0.01)

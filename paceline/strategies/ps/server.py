"""A parameter server: `python -m paceline.strategies.ps.server`, its configuration as one JSON line on stdin."""

import contextlib
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import zmq

from paceline.errors import ServerLost
from paceline.strategies.ps.launch import ServerConfig
from paceline.strategies.ps.owned import OwnedRange, Refusal
from paceline.strategies.ps.rules import Alone, Answers, Rule, Together
from paceline.strategies.ps.wire import Malformed, Message, decode, send


class Server:
    """Answers messages; it does not use sockets itself."""

    def __init__(self, config: ServerConfig) -> None:
        self._range = OwnedRange(config)
        self._rule: Rule = (Together if config.mode == "sync" else Alone)(self._range, config)
        self._cores = len(config.cores or [0])
        self._begun: tuple[float, float] | None = None
        """When the first gradients arrived, and the CPU time until then."""

    @property
    def finished(self) -> bool:
        """Whether all workers have left."""
        return len(self._rule.left) == self._rule.workers

    def answer(self, worker: int, message: Message) -> Answers:
        """The answers to a message and their recipients; an invalid message is refused and changes nothing."""
        try:
            return self._obey(worker, message)
        except Refusal as refusal:
            return [(worker, Message("refused", {"reason": str(refusal)}))]

    def _obey(self, worker: int, message: Message) -> Answers:
        match message.kind:
            case "push":
                self._begun = self._begun or (time.perf_counter(), time.process_time())
                return self._rule.push(worker, self._range.decoded(message.tensors))
            case "apply":
                return self._rule.apply(worker, _number(message, "lr"), _number(message, "scale"))
            case "pull":
                return self._rule.pull(worker)
            case "rest":
                return self._rule.rest(worker)
            case "leave":
                return self._rule.leave(worker)
            case "load":
                self._range.load(message)
                return [(worker, Message("loaded"))]
            case "state":
                return [(worker, self._range.state())]
            case "report":
                return [(worker, Message("report", {**self._rule.report(), **self._utilisation()}))]
            case unknown:
                raise Refusal(f"there is no message {unknown!r}")

    def _utilisation(self) -> dict[str, float | None]:
        """CPU time on its cores ÷ elapsed time, since the first gradients arrived."""
        if self._begun is None:
            return {"utilisation_percent": None}
        seconds, busy = time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]
        return {"utilisation_percent": 100 * busy / seconds / self._cores}


def _number(message: Message, name: str) -> float:
    value = message.fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Refusal(f"{name} of {message.kind!r} is {value!r}, not a number")
    return float(value)


def serve(config: ServerConfig, lifeline: int, announce: Callable[[str], object]) -> None:
    """Serve until all workers have left, or the file descriptor `lifeline` reaches its end."""
    with _endpoint(config.address) as wanted, zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        router.bind(wanted)
        server = Server(config)
        announce(router.getsockopt_string(zmq.LAST_ENDPOINT))
        _converse(server, router, lifeline, {str(rank).encode(): rank for rank in range(config.workers)})


@contextlib.contextmanager
def _endpoint(address: str | None) -> Iterator[str]:
    """Any port of an address, or a socket file in a private folder (0700), which is removed afterwards."""
    if address is not None:
        yield f"tcp://{address}:*"
        return
    folder = Path(tempfile.mkdtemp(prefix="paceline-server-"))
    try:
        yield f"ipc://{folder / 'socket'}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _converse(server: Server, router: "zmq.Socket[bytes]", lifeline: int, workers: dict[bytes, int]) -> None:
    addresses = {rank: address for address, rank in workers.items()}
    poller = zmq.Poller()
    poller.register(router, zmq.POLLIN)
    poller.register(lifeline, zmq.POLLIN)
    while not server.finished:
        events = dict(poller.poll())
        if lifeline in events and not os.read(lifeline, 1024):
            return
        if router not in events:
            continue
        sender, *frames = router.recv_multipart(copy=False)
        worker = workers.get(sender.bytes)
        if worker is None:
            continue  # an unknown sender
        try:
            answers = server.answer(worker, decode(frames))
        except Malformed as error:
            answers = [(worker, Message("refused", {"reason": str(error)}))]
        for rank, answer in answers:
            send(router, answer, to=addresses[rank])


class ServerThread:
    """A server in a thread of this process, with the same sockets, for tests that need no process."""

    def __init__(self, config: ServerConfig) -> None:
        self._end_of_line, self._lifeline = os.pipe()
        self._announced = threading.Event()
        self._endpoint = self._trouble = ""
        self._thread = threading.Thread(target=self._run, args=(config,), daemon=True)
        self._thread.start()

    def _run(self, config: ServerConfig) -> None:
        try:
            serve(config, self._end_of_line, self._announce)
        except Exception:
            self._trouble = traceback.format_exc()
        finally:
            self._announced.set()

    def _announce(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._announced.set()

    def endpoint(self) -> str:
        """Where it listens; waits until it does."""
        self._announced.wait()
        if self._trouble:
            raise ServerLost(f"A server thread did not start: {self._trouble}")
        return self._endpoint

    def failure(self) -> str | None:
        """How it ended; None while it runs."""
        return None if self._thread.is_alive() else f"ended. {self._trouble}"

    def wait(self, seconds: float) -> None:
        """Give it time to end by itself."""
        self._thread.join(seconds)

    def close(self) -> None:
        """End it."""
        os.close(self._lifeline)
        self._thread.join()
        os.close(self._end_of_line)


def pin(config: ServerConfig) -> None:
    """Pin this process to its cores and set its signal handlers; call it before anything computes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the workers decide when a run ends
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # by an exception, so that the folder is removed
    if config.cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, config.cores)
    torch.set_num_threads(len(config.cores or [0]))


def main() -> None:
    """Serve for the process that started this one."""
    config = ServerConfig.from_json(sys.stdin.readline())
    pin(config)
    serve(config, sys.stdin.fileno(), _announce)


def _announce(endpoint: str) -> None:
    print(json.dumps({"endpoint": endpoint}), flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # an optimizer's output must not fill an unread pipe


if __name__ == "__main__":
    main()

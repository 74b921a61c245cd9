"""The server process: strangers, signals, and its end."""

import dataclasses
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
import zmq
from strategies.ps_training import (
    ADAM,
    SGD,
    STEPS,
    config,
    even_step,
    oracle,
    recipe_with_clipping,
    uneven_step,
    weights,
    with_replicas,
)
from torch import Tensor

from paceline.errors import ServerLost
from paceline.strategies.base import Replica
from paceline.strategies.group import Group
from paceline.strategies.ps.launch import ServerConfig, ServerProcess, socket_path
from paceline.strategies.ps.server import ServerThread
from paceline.strategies.ps.wire import Message, decode, send
from paceline.traffic.ps import ParameterServer


def test_a_config_survives_its_way_to_the_server() -> None:
    given = config(recipe=recipe_with_clipping(ADAM, 0.5))
    assert ServerConfig.from_json(given.to_json()) == given


class Explosive:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("exploded",)


def test_garbage_neither_kills_the_server_nor_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = ServerThread(config())
    with zmq.Context() as context:
        strangers = [context.socket(zmq.DEALER) for _ in range(2)]
        worker = context.socket(zmq.DEALER)
        worker.setsockopt(zmq.ROUTING_ID, b"0")
        for socket in [*strangers, worker]:
            socket.linger = 0
            socket.connect(server.endpoint())
        explosive = pickle.dumps(Explosive())
        for socket in strangers:
            for parts in ([b""], [explosive], [b"{}"], [b'{"kind": "leave", "fields": {}, "tensors": []}']):
                socket.send_multipart(parts)
        for parts in (
            [explosive],
            [b""],
            [b'{"kind": "load", "fields": {}, "tensors": []}'],
            [b'{"kind": "apply", "fields": {"lr": "x", "scale": []}, "tensors": []}'],
            [b'{"kind": "apply", "fields": {"lr": 1, "scale": 1}, "tensors": []}'],
            [b'{"kind": "push", "fields": {}, "tensors": []}'],
            [b'{"kind": "__class__", "fields": {}, "tensors": []}'],
        ):
            worker.send_multipart(parts)
            assert decode(worker.recv_multipart(copy=False)).kind == "refused"
        send(worker, Message("load", {"version": 0}, {"float32": torch.arange(4.0)}))
        assert decode(worker.recv_multipart(copy=False)).kind == "loaded"
        send(worker, Message("pull"))
        answer = decode(worker.recv_multipart(copy=False))
        assert torch.equal(answer.tensors["float32"], torch.arange(4.0))
        for socket in [*strangers, worker]:
            socket.close()
    assert server.failure() is None
    folder = folder_of(server.endpoint())
    assert folder.stat().st_mode & 0o777 == 0o700
    server.close()
    assert not folder.exists()
    assert not list(tmp_path.iterdir())


# real processes: few, because each imports torch


def folder_of(endpoint: str) -> Path:
    """The folder that holds the socket of a server on this host."""
    path = socket_path(endpoint)
    assert path is not None
    return path.parent


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


class OneProcess:
    """Starts server 1 as a process and the others as threads."""

    process: ServerProcess

    def __call__(self, given: ServerConfig) -> ServerThread | ServerProcess:
        if given.number != 1:
            return ServerThread(given)
        self.process = ServerProcess(given)
        return self.process

    def is_gone(self) -> bool:
        return not is_alive(self.process.pid) and not folder_of(self.process.endpoint()).exists()


def test_a_server_process_trains_and_leaves_nothing_behind() -> None:
    launch = OneProcess()

    def work(replica: Replica, group: Group) -> Tensor:
        for step in range(STEPS):
            uneven_step(replica, group, step, 0.1)
        return weights(replica.model).clone()

    for got in with_replicas(2, ParameterServer(servers=2), SGD, work, launch=launch):
        torch.testing.assert_close(got, oracle(2, SGD), rtol=0, atol=1e-10)
    assert launch.is_gone()


def test_a_killed_server_is_named_and_every_worker_notices() -> None:
    launch = OneProcess()
    told: dict[int, str] = {}

    def work(replica: Replica, group: Group) -> float:
        even_step(replica, 0, group.rank)
        group.barrier()
        if group.rank == 0:
            os.kill(launch.process.pid, signal.SIGKILL)
        group.barrier()
        began = time.monotonic()
        try:
            even_step(replica, 1, group.rank)
        except ServerLost as error:
            told[group.rank] = str(error)
        return time.monotonic() - began

    waits = with_replicas(2, ParameterServer(servers=2), SGD, work, launch=launch, timeout_seconds=None)
    assert told[0].startswith("Parameter server 1 was killed by SIGKILL")
    assert re.match(r"Parameter servers are gone \(.*1\); worker 1 waited", told[1])
    assert max(torch.tensor(waits).tolist()) < 10
    assert launch.is_gone()


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('this torch is broken')")
    monkeypatch.syspath_prepend(tmp_path)
    server = ServerProcess(config(number=3))
    with pytest.raises(ServerLost, match=r"(?s)server 3 did not start: it ended with exit code 1.*torch is broken"):
        server.endpoint()
    server.close()


PARENT = """
import sys, time
from paceline.strategies.ps.launch import ServerConfig, ServerProcess
server = ServerProcess(ServerConfig.from_json(sys.argv[1]))
print(server.pid, server.endpoint(), flush=True)
time.sleep(60)
"""


def test_a_server_whose_worker_was_killed_ends_and_removes_its_folder() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, config().to_json()], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid, endpoint = parent.stdout.readline().split()
    folder = folder_of(endpoint)
    assert folder.exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until(lambda: not folder.exists())
    assert until(lambda: not is_alive(int(pid)))


def test_a_server_is_pinned_survives_ctrl_c_and_removes_its_folder_when_terminated() -> None:
    core = min(os.sched_getaffinity(0))
    server = ServerProcess(dataclasses.replace(config(), cores=[core]))
    folder = folder_of(server.endpoint())
    assert os.sched_getaffinity(server.pid) == {core}
    os.kill(server.pid, signal.SIGINT)
    time.sleep(0.2)
    assert server.failure() is None
    os.kill(server.pid, signal.SIGTERM)
    assert until(lambda: server.failure() is not None)
    assert not folder.exists()
    server.close()

"""A worker's connections to all parameter servers: send requests, and detect when a server is gone."""

import time
from collections.abc import Iterator, Sequence

import zmq

from paceline.errors import Hang, RunError, ServerLost
from paceline.strategies.ps.launch import ServerHandle, socket_path
from paceline.strategies.ps.wire import Malformed, Message, decode, send

_POLL_MILLISECONDS = 200
_LINGER_MILLISECONDS = 500
_FAREWELL_SECONDS = 2.0


class Servers:
    """One DEALER per server; the worker that started the servers also monitors and stops them."""

    def __init__(
        self, endpoints: Sequence[str], rank: int, handles: Sequence[ServerHandle], timeout_seconds: float | None
    ) -> None:
        self._endpoints = endpoints
        self._rank = rank
        self._handles = handles
        self._timeout_seconds = timeout_seconds
        self._context = zmq.Context()
        self._sockets = [self._connect(endpoint) for endpoint in endpoints]

    def _connect(self, endpoint: str) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, str(self._rank).encode())
        socket.connect(endpoint)
        return socket

    def __len__(self) -> int:
        return len(self._sockets)

    def tell(self, message: Message) -> None:
        """Send every server a message that needs no answer."""
        for socket in self._sockets:
            send(socket, message)

    def ask(self, messages: Sequence[Message], expected: str) -> Iterator[tuple[int, Message]]:
        """Send each server its message; yield the servers' numbers and answers as they arrive."""
        poller = zmq.Poller()
        for socket, message in zip(self._sockets, messages, strict=True):
            send(socket, message)
            poller.register(socket, zmq.POLLIN)
        numbers = {socket: number for number, socket in enumerate(self._sockets)}
        began = time.monotonic()
        while numbers:
            answered = poller.poll(_POLL_MILLISECONDS)
            if not answered:
                self._check_alive(expected, time.monotonic() - began)
            for socket, _ in answered:
                poller.unregister(socket)
                number = numbers.pop(socket)
                yield number, _answer(socket, number, expected)

    def ask_all(self, message: Message, expected: str) -> list[Message]:
        """Send the same message to all servers; return their answers in order of number."""
        answers = dict(self.ask([message] * len(self), expected))
        return [answers[number] for number in range(len(self))]

    def _check_alive(self, expected: str, waited_seconds: float) -> None:
        for number, handle in enumerate(self._handles):
            how = handle.failure()
            if how is not None:
                raise ServerLost(f"Parameter server {number} {how}")
        files = enumerate(map(socket_path, self._endpoints))
        gone = [str(number) for number, file in files if file is not None and not file.exists()]
        if gone:  # the worker that started them knows why, and has stopped the rest
            raise ServerLost(f"Parameter servers are gone ({', '.join(gone)}); worker {self._rank} waited for them.")
        if self._timeout_seconds is not None and waited_seconds > self._timeout_seconds:
            raise Hang(f"Worker {self._rank} waited {waited_seconds:.0f} s for {expected!r} from parameter servers.")

    def close(self) -> None:
        """Disconnect; the worker that started the servers waits for them to exit, and kills those that do not."""
        try:
            self.tell(Message("leave"))
            for socket in self._sockets:
                socket.close(linger=_LINGER_MILLISECONDS)  # the last message is still in flight
            self._context.term()
        finally:
            deadline = time.monotonic() + _FAREWELL_SECONDS
            for handle in self._handles:
                if not any(other.failure() for other in self._handles):  # once one has exited, waiting is useless
                    handle.wait(max(0.0, deadline - time.monotonic()))
            for handle in self._handles:
                handle.close()


def _answer(socket: "zmq.Socket[bytes]", number: int, expected: str) -> Message:
    try:
        message = decode(socket.recv_multipart(copy=False))
    except Malformed as error:
        raise RunError(f"Parameter server {number} sent an invalid message: {error}.") from None
    if message.kind == "refused":
        raise RunError(f"Parameter server {number} refused: {message.fields.get('reason')}.")
    if message.kind != expected:
        raise RunError(f"Parameter server {number} answered {message.kind!r} instead of {expected!r}.")
    return message

"""Many clients in one thread, or in a few processes, with little overhead, so that the server is what is measured."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import NamedTuple

from benchmarks.measure.http.client import HEAD_BYTES, request_head

HOST = "127.0.0.1"
TIMEOUT_S = 120.0  # without a reply of any client


@dataclass(frozen=True, slots=True)
class Request:
    """The request that every client sends, and its address."""

    port: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def whole(self) -> bytes:
        head = request_head(f"{HOST}:{self.port}", self.method, self.path, self.headers, len(self.body))
        return head + self.body


class Rate(NamedTuple):
    """The number of replies between a start and the last of them."""

    replies: int
    seconds: float

    @property
    def per_s(self) -> float:
        return self.replies / self.seconds


@dataclass(slots=True)
class _Client:
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    reply_bytes: int | None = None  # head and body; None until the head has arrived

    def has_reply(self) -> bool:
        """Receives the bytes that arrived, and says whether the reply is complete. Raises ConnectionError."""
        data = self.socket.recv(HEAD_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.received += data
        if self.reply_bytes is None and (end := self.received.find(b"\r\n\r\n")) >= 0:
            self.reply_bytes = end + 4 + _content_length(self.received[:end])
        return self.reply_bytes is not None and len(self.received) >= self.reply_bytes

    def taken(self) -> bytes:
        """The reply, which is removed from the buffer. Raises RuntimeError if it is an error."""
        reply, self.received, self.reply_bytes = bytes(self.received), bytearray(), None
        if reply.split(b" ", 2)[1] != b"200":
            raise RuntimeError(f"a server under load answered {reply[:500]!r}")
        return reply


def _content_length(head: bytearray) -> int:
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0])


class Load:
    """Connections, each with at most one pending request."""

    def __init__(self, port: int, clients: int) -> None:
        self._exits = ExitStack()
        self._selector = self._exits.enter_context(selectors.DefaultSelector())
        self._clients = [self._client(port) for _ in range(clients)]

    def _client(self, port: int) -> _Client:
        connection = self._exits.enter_context(socket.create_connection((HOST, port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ, client)
        return client

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def burst(self, requests: Sequence[bytes]) -> list[bytes]:
        """Each client sends one request at once. Returns the replies when the last has arrived."""
        for client, request in zip(self._clients, requests, strict=True):
            client.socket.sendall(request)
        replies: list[bytes] = []
        while len(replies) < len(requests):
            replies += (client.taken() for client in self._replied())
        return replies

    def drive(self, request: bytes, ends_at: float) -> int:
        """Until then each client sends again as soon as it has its reply. Returns the number of replies."""
        for client in self._clients:
            client.socket.sendall(request)
        replies, under_way = 0, len(self._clients)
        while under_way:
            for client in self._replied():
                client.taken()
                replies += 1
                if time.monotonic() < ends_at:
                    client.socket.sendall(request)
                else:
                    under_way -= 1
        return replies

    def _replied(self) -> Iterator[_Client]:
        ready = self._selector.select(TIMEOUT_S)
        if not ready:
            raise TimeoutError(f"no client had a reply within {TIMEOUT_S:.0f} s")
        return (key.data for key, _ in ready if key.data.has_reply())


def rate(request: Request, *, clients: int, seconds: float, processes: int = 1) -> Rate:
    """Replies per second for this many clients, divided among processes that begin together."""
    if processes == 1:
        return _rate_of(request, clients, seconds)
    spawn = get_context("spawn")
    begin = spawn.Barrier(processes)
    shares = [clients // processes + (number < clients % processes) for number in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_begins.append, initargs=(begin,)) as pool:
        rates = [pending.result() for pending in [pool.submit(_rate_of, request, share, seconds) for share in shares]]
    return Rate(sum(rate.replies for rate in rates), max(rate.seconds for rate in rates))


def rates(requests: Sequence[Request], *, clients: int, seconds: float) -> list[Rate]:
    """The rate of each request with as many clients: a process for each request, all beginning together."""
    spawn = get_context("spawn")
    begin = spawn.Barrier(len(requests))
    count = len(requests)
    with ProcessPoolExecutor(count, mp_context=spawn, initializer=_begins.append, initargs=(begin,)) as pool:
        return [run.result() for run in [pool.submit(_rate_of, each, clients, seconds) for each in requests]]


_begins: list[Barrier] = []  # of this process, where it is one of several


def _rate_of(request: Request, clients: int, seconds: float) -> Rate:
    whole = request.whole
    with Load(request.port, clients) as load:
        for begin in _begins:
            begin.wait(TIMEOUT_S)
        begun = time.monotonic()
        replies = load.drive(whole, begun + seconds)
        return Rate(replies, time.monotonic() - begun)

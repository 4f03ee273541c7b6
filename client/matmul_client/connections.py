"""Connections of the blocking client, over the standard library's http.client.

httpx2 takes 0.2 ms longer for a small request, and copies a large reply once more. With our own socket, each read can
also be given the remaining time of the deadline.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BufferedReader, RawIOBase
from typing import Any

from matmul_client.core.elements import memory
from matmul_client.core.http import CONNECT_S, LATE, PIECE_BYTES, STALL_S, Service, broken, unreachable
from matmul_client.core.wire import LONGEST_S, Buffer, NoReply, Reply, Request, Sending

IDLE_S = 4.0  # the service closes a connection that idles longer
LARGE_BYTES = 64 << 10


class Connections:
    """Connections that stay open between requests; during a request each belongs to one thread. A forked process makes
    its own: on those of its parent, each would read the other's replies."""

    def __init__(self, service: Service, context: ssl.SSLContext | None) -> None:
        self._service = service
        self._context = (context or ssl.create_default_context()) if service.is_secure else None
        self._idle: deque[tuple[HTTPConnection, float]] = deque()  # that which idles longest comes first
        self._process = os.getpid()

    def close(self) -> None:
        while kept := self._idle_one():
            kept[0].close()

    def exchange(self, request: Request, deadline: float, sending: Sending | None = None) -> Reply | NoReply:
        """The whole reply, or the reason why there is none."""
        with self.opened(request, deadline, sending) as response:
            if isinstance(response, NoReply):
                return response
            try:
                body = _body(response, deadline)
            except (OSError, HTTPException) as error:
                return broken(self._service.url, error)
            return Reply(response.response.status, response.headers(), body)

    @contextmanager
    def opened(self, request: Request, deadline: float, sending: Sending | None = None) -> Iterator[Opened | NoReply]:
        """A reply whose body has not been read yet. The connection is kept if it was read to its end."""
        sending = sending or Sending()
        sending.is_partial = True
        try:
            connection = self._take(deadline)
        except (OSError, HTTPException) as error:
            yield unreachable(self._service.url, error)
            return
        opened: Opened | None = None
        try:
            try:
                opened = self._ask(connection, request, deadline, sending)
            except (OSError, HTTPException) as error:
                yield broken(self._service.url, error)
                return
            yield opened
        finally:
            if opened is not None:
                opened.response.close()
            if opened is not None and opened.is_read and not opened.response.will_close:
                self._keep(connection)
            else:
                connection.close()

    def _take(self, deadline: float) -> HTTPConnection:
        """An idle connection that the service has not closed, or else a new one. Raises OSError."""
        if self._process != os.getpid():
            self.close()
            self._process = os.getpid()
        while kept := self._idle_one():
            connection, since = kept
            if time.monotonic() - since < IDLE_S and not _has_something(connection):
                return connection
            connection.close()
        return self._connected(min(deadline, time.monotonic() + CONNECT_S))

    def _connected(self, deadline: float) -> HTTPConnection:
        """A new connection. The addresses of a host share the time until the deadline. Raises OSError."""
        service = self._service
        made = HTTPConnection(service.host, service.port or (443 if service.is_secure else 80))
        connected = _socket_to(made.host, made.port, deadline)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connected.settimeout(_left_s(deadline))
                connected = self._context.wrap_socket(connected, server_hostname=service.host)
        except BaseException:
            connected.close()
            raise
        made.sock = connected
        return made

    def _keep(self, connection: HTTPConnection) -> None:
        """Closes those that nobody has needed for long, as after a burst of threads."""
        self._idle.append((connection, time.monotonic()))
        with suppress(IndexError):  # threads may ask at one time
            while time.monotonic() - self._idle[0][1] > IDLE_S:
                self._idle.popleft()[0].close()

    def _idle_one(self) -> tuple[HTTPConnection, float] | None:
        with suppress(IndexError):  # threads may ask at one time
            return self._idle.pop()
        return None

    def _ask(self, connection: HTTPConnection, request: Request, deadline: float, sending: Sending) -> Opened:
        """Raises OSError, HTTPException."""
        connection.sock.settimeout(_left_s(deadline))
        connection.putrequest(request.method, self._service.target(request), skip_host=True, skip_accept_encoding=True)
        for name, value in self._service.headers(request).items():
            connection.putheader(name, value)
        if request.body_bytes <= PIECE_BYTES:
            sending.is_partial = False  # before the last of it is out of our hands
            connection.endheaders(b"".join(request.body) or None)
        else:
            connection.endheaders()
            left = request.body_bytes
            with suppress(BrokenPipeError, ConnectionResetError):  # it refuses, and its reply says why
                for piece in _pieces(request.body):
                    connection.sock.settimeout(_left_s(deadline))
                    left -= len(piece)
                    sending.is_partial = left > 0
                    connection.send(piece)
        received = Received(connection.sock, deadline)
        connection.response_class = partial(_response, received)  # type: ignore[assignment]  # it is called as a class
        response = connection.getresponse()
        received.may_end = not response.chunked
        return Opened(response, received)


class Received(RawIOBase):
    """What comes from a socket. However small the pieces that come, head and body of a reply end with the deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._socket = connection
        self._file = connection.makefile("rb", buffering=0)
        self.deadline = deadline
        self.stall_s = LONGEST_S  # until the reply begins: the service may wait for a job as long as it was asked to
        self.may_end = False  # http.client takes the end of the connection for that of a head, or of a chunk's size

    def makefile(self, mode: str) -> BufferedReader:
        """What http.client asks of a socket."""
        return BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, memory: Any) -> int | None:
        """Raises OSError."""
        if time.monotonic() >= self.deadline:
            raise TimeoutError(LATE)
        self._socket.settimeout(min(self.stall_s, _left_s(self.deadline)))
        count = self._file.readinto(memory)
        if count == 0 and not self.may_end:
            raise ConnectionError("it ended before the reply did")
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _response(received: Received, _: socket.socket, *others: Any, **named: Any) -> HTTPResponse:
    return HTTPResponse(received, *others, **named)  # type: ignore[arg-type]  # it asks a socket for its file alone


class Opened:
    """A reply, its body in pieces."""

    def __init__(self, response: HTTPResponse, received: Received) -> None:
        self._received = received
        self.response = response
        self.is_read = False

    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.response.headers.items()}

    def pieces(self, deadline: float) -> Iterator[bytes]:
        """Yields the body in pieces as they arrive. Raises OSError, HTTPException."""
        self._received.deadline, self._received.stall_s = deadline, STALL_S
        while piece := self.response.read1(LARGE_BYTES):
            yield piece
        self.is_read = True

    def read_into(self, memory: memoryview, deadline: float) -> None:
        """Reads the whole body into `memory`, without a copy. Raises OSError, HTTPException."""
        self._received.deadline, self._received.stall_s = deadline, STALL_S
        reader, have = self.response.fp, 0
        while have < len(memory):
            count = reader.readinto1(memory[have : have + PIECE_BYTES])
            if not count:
                raise HTTPException(f"{len(memory) - have} bytes of the reply are missing")
            have += count
        self.is_read = True


def _body(opened: Opened, deadline: float) -> Buffer:
    length = opened.response.length
    if length is not None and length >= LARGE_BYTES:
        whole = memory(length)
        opened.read_into(whole, deadline)
        return whole
    body = b"".join(opened.pieces(deadline))
    if length is not None and len(body) != length:
        raise HTTPException(f"{length - len(body)} bytes of the reply are missing")
    return body


def _pieces(buffers: tuple[Buffer, ...]) -> Iterator[Buffer]:
    for buffer in buffers:
        for start in range(0, len(buffer), PIECE_BYTES):
            yield buffer[start : start + PIECE_BYTES]


def _socket_to(host: str, port: int, deadline: float) -> socket.socket:
    """Raises OSError."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(_left_s(deadline) / (len(addresses) - number + 1))
            made.connect(address)
            return made
        except BaseException as error:
            made.close()
            if number == len(addresses) or not isinstance(error, OSError):
                raise
    raise OSError("its name has no address")


def _left_s(deadline: float) -> float:
    return min(LONGEST_S, max(0.001, deadline - time.monotonic()))


def _has_something(connection: HTTPConnection) -> bool:
    """Whether there is something to read where nothing was asked: the end of the connection."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection.sock], [], [], 0)[0])
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN)
    return bool(waiting.poll(0))

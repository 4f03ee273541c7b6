"""Connections that are kept: between threads, processes and event loops; and heads of replies that never end."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from matmul_client import AsyncClient, Client, MatmulError, Unreachable
from matmul_client.connections import IDLE_S, Connections
from matmul_client.core.http import LATE, Service
from matmul_client.core.wire import NoReply, Reply, Request
from tests.support.replicas.certificates import Authority
from tests.support.replicas.endpoint import server_context
from tests.unit.client.scripted import HEAD, scripted

LIST = b'{"kernels": []}'
ASK = Request("POST", "/v1/matmul")


class Kernels(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        callers = self.server.callers  # type: ignore[attr-defined]  # of `kept`
        callers.append(self.client_address)
        self.send_response(200)
        self.send_header("content-length", str(len(LIST)))
        self.end_headers()
        self.wfile.write(LIST)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """As where a handshake fails."""


@contextmanager
def kept(context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[object]]]:
    """A server that leaves its connections open: its URL, and whose each request was."""
    server = Server(("127.0.0.1", 0), Kernels)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    callers: list[object] = []
    server.callers = callers  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", callers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_forked_process_uses_none_of_its_parents_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both would read each other's products from it."""
    with kept() as (url, callers), Client(url) as client:
        client.kernels()
        client.kernels()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        client.kernels()
        client.kernels()
    first, second, third, fourth = callers
    assert first == second != third == fourth


def test_encrypted_connections_are_kept_and_say_what_is_wrong(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def ask(url: str, trusted: ssl.SSLContext | None) -> None:
        async with AsyncClient(url, ssl_context=trusted, max_retries=0) as client:
            await client.kernels()
            await client.kernels()

    with kept(server_context(authority, asks_clients=False)) as (url, callers):
        trusted = ssl.create_default_context(cafile=str(authority.file))
        with Client(url, ssl_context=trusted) as client:
            assert client.kernels() == client.kernels() == []
        asyncio.run(ask(url, trusted))
        assert callers[0] == callers[1] != callers[2] == callers[3]
        with Client(url, max_retries=0) as stranger, pytest.raises(Unreachable, match="trust it by ssl_context"):
            stranger.kernels()
        with pytest.raises(Unreachable, match="trust it by ssl_context"):
            asyncio.run(ask(url, None))
    with kept() as (url, _):
        secure = url.replace("http", "https")
        with Client(secure, max_retries=0) as client, pytest.raises(Unreachable, match="speak plain http://"):
            client.kernels()
        with pytest.raises(Unreachable, match="speak plain http://"):
            asyncio.run(ask(secure, None))


class Stale:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_connections_of_a_burst_are_closed_once_they_have_idled(monkeypatch: pytest.MonkeyPatch) -> None:
    stale: Any = Stale()
    with kept() as (url, callers), Client(url) as client:
        client.kernels()
        idle = client._connections._idle
        idle.insert(0, (stale, idle[0][1] - IDLE_S - 1))
        client.kernels()
        assert callers[0] == callers[1] and stale.closed and len(idle) == 1


def test_a_client_of_another_event_loop_says_so() -> None:
    async def once() -> None:
        await client.kernels()

    with kept() as (url, _):
        client = AsyncClient(url)

        async def first() -> None:
            await once()
            await client.aclose()

        asyncio.run(first())
        with pytest.raises(MatmulError, match="belongs to another event loop; make one in each"):
            asyncio.run(once())


def ticking() -> Callable[[], float]:
    """A clock that each look at it advances by a second."""
    ticks = count()
    return lambda: float(next(ticks))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * 40_000,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 99 + b"x: " + b"y" * 65_000,
        HEAD.replace(b"content-length: 4", b"transfer-encoding: chunked") + b"0" * 65_000,
    ],
)
def test_a_head_in_however_many_pieces_ends_with_the_deadline(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock takes a second, so that a reply of more than a few pieces comes too late, however long the
    server takes."""
    with scripted(answer) as server:
        connections = Connections(Service(server.url, None), None)
        monkeypatch.setattr("matmul_client.connections.time", SimpleNamespace(monotonic=ticking()))
        monkeypatch.setattr("matmul_client.connections._left_s", lambda _: 60.0)
        outcome = connections.exchange(ASK, 6.0)
        connections.close()
    assert isinstance(outcome, NoReply) and LATE.rstrip(".") in outcome.reason


class Dead:
    """A socket to a host that does not answer."""

    waited_s = 0.0
    timeout_s = 0.0

    def __init__(self, *_: object) -> None:
        pass

    def settimeout(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s

    def connect(self, _: object) -> None:
        assert self.timeout_s > 0.5
        Dead.waited_s += self.timeout_s
        raise TimeoutError("timed out")

    def close(self) -> None:
        pass


def test_the_addresses_of_a_host_share_the_time_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets some, so that one that does not answer leaves time for the next."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 1))] * 4
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "socket", Dead)
    monkeypatch.setattr("matmul_client.connections.time", SimpleNamespace(monotonic=lambda: Dead.waited_s))
    outcome = Connections(Service("http://a", None), None).exchange(ASK, 8.0)
    assert isinstance(outcome, NoReply) and not outcome.may_have_arrived
    assert Dead.waited_s == pytest.approx(8.0)


def test_whoever_watches_http_sees_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("http.client.HTTPConnection.debuglevel", 1)
    with scripted(HEAD + b"1234") as server:
        connections = Connections(Service(server.url, None), None)
        assert isinstance(connections.exchange(ASK, float("inf")), Reply)
        connections.close()
    assert "reply: 'HTTP/1.1 200 OK" in capsys.readouterr().out

"""Clients that do not read what they asked for, and clients that vanished: raw sockets against the real server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from service.server import sending
from tests.integration.faults.test_sockets import TIMEOUT_S, connection
from tools.harness.api import Api, running_api, until


@pytest.fixture(scope="module")
def api(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One that does not wait long for its readers."""
    limits = {"receive_timeout_s": TIMEOUT_S, "send_timeout_s": TIMEOUT_S}
    with running_api(valkey, f"{new_id('sockets')}:", tmp_path_factory.mktemp("sockets"), **limits) as running:
        yield running


def test_who_does_not_read_is_cut_off_and_costs_little(api: Api) -> None:
    """A reply of 16 MiB, asked for by a hundred who take nothing of it."""
    with api.client() as client:
        made = client.post("/v1/matrices", json={"random": {"shape": [2048, 2048]}}).json()["id"]
        get = f"GET /v1/matrices/{made} HTTP/1.1\r\nHost: localhost\r\nAccept: application/octet-stream\r\n\r\n"
        process = psutil.Process()
        with ExitStack() as stack:
            client.get(f"/v1/matrices/{made}", headers={"accept": "application/octet-stream"})
            before = process.memory_info().rss
            for _ in range(100):
                opened = stack.enter_context(unread(api))
                opened.sendall(get.encode())
                opened.recv(1, socket.MSG_PEEK)  # it was accepted, and its answer has begun
            until(lambda: not open_connections(api, process), 30)
        assert process.memory_info().rss - before < 64 << 20  # 6.3 MiB for each, before replies had a deadline
        assert client.get("/livez").status_code == 200


@contextmanager
def unread(api: Api) -> Iterator[socket.socket]:
    parts = urlsplit(api.url)
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.connect((parts.hostname, parts.port))
        yield opened


def open_connections(api: Api, process: psutil.Process) -> int:
    """The server's, but for that of the test's own HTTP client."""
    port = urlsplit(api.url).port
    ours = [each for each in process.net_connections("tcp") if each.laddr.port == port]
    return max(0, sum(each.status == psutil.CONN_ESTABLISHED for each in ours) - 1)


def test_a_silent_client_s_host_is_asked_after(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system: one that vanished sends nothing, not even that it is gone."""
    seen: list[tuple[int, int, int]] = []
    monkeypatch.setattr(sending, "_watch_over", spy(seen, sending._watch_over))
    with connection(api) as opened:
        opened.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b" 200 OK" in opened.recv(65536)
    assert seen == [(1, sending.KEEPALIVE_IDLE_S, sending.USER_TIMEOUT_MS)]


def spy(seen: list[tuple[int, int, int]], watch_over: Any) -> Any:
    def watched(connection: Any) -> None:
        watch_over(connection)
        options = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
        kept, idle = (connection.getsockopt(*option) for option in options)
        seen.append((kept, idle, connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)))

    return watched

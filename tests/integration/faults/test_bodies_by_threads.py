"""Large bodies that a thread reads from the socket, on a connection that goes on behind them."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest

from jobs.models import ANONYMOUS
from service.api_process import body_bytes
from service.api_process.body_bytes import AT_ONCE_BYTES, BodyBytes
from service.bodies import body
from service.server import large_bodies, receiver
from tests.support.stores import StoreBench
from tools.harness.api import Api, npy, until

MATRIX = np.random.default_rng(5).standard_normal((1500, 1000), dtype=np.float32)
FILE = npy(MATRIX)
CONTENT_ID = hashlib.sha256(b"float32:1500x1000\n" + MATRIX.tobytes()).hexdigest()
NEXT = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LATE_S = 0.1  # far beyond what a thread waits


def post(body: bytes) -> bytes:
    head = b"POST /v1/matrices HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\nContent-Length: "
    return head + b"%d\r\n\r\n" % len(body) + body


@pytest.fixture
def came(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each thread read."""
    seen: list[int] = []
    own = BodyBytes.pass_to

    def watched(coming: BodyBytes, *given: object) -> None:
        own(coming, *given)  # type: ignore[arg-type]
        seen.append(coming.came_bytes)

    monkeypatch.setattr(BodyBytes, "pass_to", watched)
    return seen


@pytest.fixture
def client(served: tuple[Api, StoreBench]) -> Iterator[socket.socket]:
    parts = urlsplit(served[0].url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as opened:
        yield opened


def replies(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(65536):
        data += piece
    return data


@pytest.mark.parametrize("at_once_bytes", [700_000, AT_ONCE_BYTES])
def test_a_body_that_comes_fast_is_read_by_threads(
    client: socket.socket, came: list[int], at_once_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_bytes, "AT_ONCE_BYTES", at_once_bytes)
    monkeypatch.setattr(body_bytes, "PATIENCE_S", 60.0)
    monkeypatch.setattr(receiver, "FLUSH_S", 60.0)
    client.sendall(post(FILE) + NEXT)
    answers = replies(client)
    assert answers.count(b"HTTP/1.1 20") == 2 and CONTENT_ID.encode() in answers
    assert len(FILE) - (2 << 20) <= sum(came) < len(FILE) and max(came) <= at_once_bytes


@pytest.mark.parametrize("cut", [100, 300_000, 2_000_000, len(FILE)])
def test_of_a_slow_client_the_event_loop_reads_on(client: socket.socket, cut: int) -> None:
    request = post(FILE)
    client.sendall(request[:cut])
    time.sleep(LATE_S)  # whichever of them reads then, all comes
    client.sendall(request[cut:] + NEXT)
    answers = replies(client)
    assert answers.count(b"HTTP/1.1 20") == 2 and CONTENT_ID.encode() in answers


def test_where_enough_threads_read_the_event_loop_does(
    client: socket.socket, came: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "MAX_READERS", 0)
    client.sendall(post(FILE) + NEXT)
    assert CONTENT_ID.encode() in replies(client) and not came


def test_a_very_large_body_is_received_while_a_thread_stores(
    client: socket.socket, came: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BY_THREAD_BYTES", len(FILE) - 1)
    client.sendall(post(FILE) + NEXT)
    assert CONTENT_ID.encode() in replies(client) and not came


def test_what_follows_the_elements_is_refused(client: socket.socket) -> None:
    client.sendall(post(FILE + bytes(1 << 20)) + NEXT)
    answers = replies(client)
    assert answers.startswith(b"HTTP/1.1 422") and answers.count(b"HTTP/1.1 ") == 2, "the connection goes on"


def test_of_a_client_that_goes_nothing_stays(served: tuple[Api, StoreBench], client: socket.socket) -> None:
    api, _ = served
    before = api.stored_bytes(ANONYMOUS)
    client.sendall(post(FILE)[:-1000])
    client.close()
    until(lambda: api.stored_bytes(ANONYMOUS) == before and not large_bodies._READ_BY)

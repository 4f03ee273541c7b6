"""Answers that come before the end of their request's body."""

from __future__ import annotations

import pytest

from service.server.deadlines import DISCARD_BYTES
from tests.support.http.wire import TIMEOUT_S, connected

HEAD = b"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
SMALL, LARGE = 30_000, 3 << 20
SIZED = [
    (HEAD + b"Content-Length: %d\r\n\r\n" % SMALL, b"x" * SMALL),
    (HEAD + b"Content-Length: %d\r\n\r\n" % LARGE, b"x" * LARGE),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (SMALL, b"x" * SMALL)),
    (HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Content-Length: %d\r\n\r\n" % SMALL, b"x" * SMALL),
]
SIZES = ["small", "large", "chunked", "HTTP/1.0"]


@pytest.mark.parametrize(("head", "body"), SIZED, ids=SIZES)
def test_the_connection_is_closed_behind_the_body(head: bytes, body: bytes) -> None:
    with connected() as connection:
        connection.answers_at_once = True
        connection.send(head)
        assert connection.wire.written.startswith(b"HTTP/1.1 202") and b"connection: close" in connection.wire.written
        connection.send(body[:20_000])
        connection.loop.move(TIMEOUT_S * 0.9)  # it is silent for longer than an idle connection is kept
        assert not connection.wire.is_closing()
        connection.send(body[20_000:] + GET)
        assert connection.wire.is_closing() and connection.wire.written.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(("head", "body"), SIZED, ids=SIZES)
def test_a_body_that_never_comes_is_not_waited_for(head: bytes, body: bytes) -> None:
    with connected() as connection:
        connection.answers_at_once = True
        connection.send(head)
        connection.send(body[:2000])
        connection.loop.move(TIMEOUT_S * 1.1)
        assert connection.wire.is_closing() and connection.wire.written.count(b"HTTP/1.1") == 1


def test_a_body_without_end_is_cut_off() -> None:
    with connected() as connection:
        connection.answers_at_once = True
        connection.send(HEAD + b"Content-Length: %d\r\n\r\n" % (2 * DISCARD_BYTES))
        piece, sent = b"x" * (8 << 20), 0
        while not connection.wire.is_closing() and sent <= DISCARD_BYTES:
            connection.send(piece)
            sent += len(piece)
        assert connection.wire.is_closing() and sent > DISCARD_BYTES // 2

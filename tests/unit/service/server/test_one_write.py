"""A reply's head goes out together with what follows it."""

from __future__ import annotations

from typing import Any

import pytest

from service.server.lingering import JOINED_BYTES
from tests.support.http.wire import Connection, Wire, connected

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Everything that is written, each write by itself."""
    found: list[bytes] = []

    def write(wire: Wire, data: Any) -> None:
        found.append(bytes(data))
        wire.written += bytes(data)

    monkeypatch.setattr(Wire, "write", write)
    return found


def answering(monkeypatch: pytest.MonkeyPatch, *pieces: bytes, length: int | None, status: int = 200) -> None:
    """Makes the application answer with these pieces, and then fail if they are fewer than it announced."""

    async def application(_self: Connection, _scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = [] if length is None else [(b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if length in (None, sum(map(len, pieces))):
            await send({"type": "http.response.body"})

    monkeypatch.setattr(Connection, "_application", application)


def test_a_small_reply_is_one_write(monkeypatch: pytest.MonkeyPatch, writes: list[bytes]) -> None:
    answering(monkeypatch, b"product", length=7)
    with connected() as connection:
        connection.send(GET)
        connection.send(GET)
    assert [write[-11:] for write in writes if write] == [b"\r\n\r\nproduct"] * 2


def test_a_large_piece_is_not_copied_behind_the_head(monkeypatch: pytest.MonkeyPatch, writes: list[bytes]) -> None:
    pieces = bytes(JOINED_BYTES + 1), b"rest"
    answering(monkeypatch, *pieces, length=sum(map(len, pieces)))
    with connected() as connection:
        connection.send(GET)
    assert writes[0].endswith(b"\r\n\r\n") and tuple(filter(None, writes[1:])) == pieces


@pytest.mark.parametrize(("request_line", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304)])
def test_a_head_alone_is_sent_too(
    monkeypatch: pytest.MonkeyPatch, writes: list[bytes], request_line: bytes, status: int
) -> None:
    answering(monkeypatch, length=None if status == 204 else 0, status=status)
    with connected() as connection:
        connection.send(GET.replace(b"GET", request_line))
        assert b"".join(writes).startswith(b"HTTP/1.1 %d" % status)
        connection.send(GET)
    assert b"".join(writes).count(b"HTTP/1.1") == 2


def test_what_fails_behind_its_head_is_cut_off_there(monkeypatch: pytest.MonkeyPatch, writes: list[bytes]) -> None:
    answering(monkeypatch, length=7)
    with connected() as connection:
        connection.send(GET)
        assert b"".join(writes).endswith(b"content-length: 7\r\n\r\n") and connection.wire.is_closed


def test_continue_waits_for_nothing(monkeypatch: pytest.MonkeyPatch, writes: list[bytes]) -> None:
    answering(monkeypatch, b"product", length=7)
    with connected() as connection:
        connection.send(GET.replace(b"GET", b"POST")[:-2] + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]
        connection.send(b"ab")
    assert len([write for write in writes if write]) == 2

"""The bytes of a body as a thread reads them from its socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from service.api_process import body_bytes
from service.api_process.body_bytes import PIECE_BYTES, BodyBytes

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The client's end, and the server's, which does not block."""
    client, server = socket.socketpair()
    with client, server:
        server.setblocking(False)
        yield client, server


@pytest.mark.parametrize("piece_bytes", [1, 300, PIECE_BYTES])
@pytest.mark.parametrize("at_once_bytes", [600, 1000, 2000])
def test_no_byte_is_lost_and_none_behind_the_body_is_read(
    pair: Pair, piece_bytes: int, at_once_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = pair
    monkeypatch.setattr(body_bytes, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(body_bytes, "AT_ONCE_BYTES", at_once_bytes)
    body, pieces = os.urandom(1000), list[bytes]()
    client.sendall(body + b"behind")
    while (left := 1000 - sum(map(len, pieces))) > 0:
        coming = BodyBytes(server.fileno(), left)
        coming.pass_to(lambda piece: pieces.append(bytes(piece)))
        assert coming.is_fast and coming.came_bytes == min(left, at_once_bytes)
        assert coming.is_whole == (left <= at_once_bytes)
    assert b"".join(pieces) == body and len(pieces[0]) == min(piece_bytes, at_once_bytes, 1000)
    assert server.recv(100) == b"behind"


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_client_that_is_slow_or_gone_is_left_to_the_event_loop(pair: Pair, is_gone: bool) -> None:
    client, server = pair
    client.sendall(b"some")
    if is_gone:
        client.close()
    kept: list[memoryview] = []
    coming = BodyBytes(server.fileno(), 1000)
    coming.pass_to(kept.append)
    assert coming.came_bytes == 4 and not coming.is_fast and not coming.is_whole
    if not is_gone:
        client.sendall(b"more")
        BodyBytes(server.fileno(), 996).pass_to(kept.append)
        assert [bytes(piece) for piece in kept] == [b"some", b"more"], "what is kept is not written to again"

"""How long a request's body is waited for: the server's protocol under a clock that the test moves."""

from __future__ import annotations

import re

import pytest

from jobs.matrices.indexed_store import UPLOAD_LEASE_S
from service.server.deadlines import MIN_BYTES
from service.server.sending import MIN_SEND_BYTES_S, Unsent
from tests.support.http.wire import TIMEOUT_S, Wire, connected

BODY_BYTES = 30_000
HEAD = b"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES


GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("pieces", [12, 25])
def test_a_slow_but_steady_body_is_waited_for(pieces: int) -> None:
    """For many times the timeout in all."""
    with connected() as connection:
        connection.send(HEAD)
        for _ in range(pieces):
            connection.loop.move(TIMEOUT_S * 0.9)
            assert not connection.wire.is_closing()
            connection.send(b"x" * (BODY_BYTES // pieces))
        assert connection.received_bytes == BODY_BYTES
        assert connection.wire.written.startswith(b"HTTP/1.1 202")


def test_silence_is_waited_for_once() -> None:
    with connected() as connection:
        connection.send(HEAD + b"x" * (BODY_BYTES - 1))
        connection.loop.move(TIMEOUT_S * 0.99)
        assert not connection.wire.is_closing()
        connection.loop.move(TIMEOUT_S * 0.02)
        assert connection.wire.is_closing()
        assert connection.wire.written.startswith(b"HTTP/1.1 408")


def test_a_trickle_is_not_waited_for() -> None:
    """Less than the least within one timeout, though never silent."""
    with connected() as connection:
        connection.send(HEAD)
        for _ in range(20):
            connection.loop.move(TIMEOUT_S / 10)
            connection.send(b"x" * (MIN_BYTES // 20))
        assert connection.wire.written.startswith(b"HTTP/1.1 408")


def test_a_large_body_must_come_within_the_time_that_its_room_is_kept() -> None:
    """So much in each timeout, though a small one may come more slowly."""
    length = 1 << 30
    due = int(length * TIMEOUT_S / UPLOAD_LEASE_S)
    for sent, is_late in ((due // 2, True), (due * 2, False)):
        with connected() as connection:
            connection.send(HEAD.replace(b"%d" % BODY_BYTES, b"%d" % length))
            for _ in range(20):
                connection.loop.move(TIMEOUT_S / 10)
                connection.send(b"x" * (sent // 10))
            assert connection.wire.is_closing() == is_late


def test_a_client_that_does_not_read_is_disconnected() -> None:
    with connected() as connection:
        connection.send(GET)
        connection.stall(1 << 20)
        connection.loop.move(TIMEOUT_S * 0.99)
        assert not connection.wire.is_aborted
        connection.loop.move(TIMEOUT_S * 0.02)
        assert connection.wire.is_aborted


@pytest.mark.parametrize("taken", [0.5, 1.5])
def test_a_reply_must_go_at_a_least_rate(taken: float) -> None:
    """It may take many timeouts; what counts is how much goes in each."""
    with connected() as connection:
        connection.send(GET)
        connection.stall(1 << 24)
        for _ in range(40):
            connection.wire.unsent_bytes -= int(taken * MIN_SEND_BYTES_S * TIMEOUT_S / 10)
            connection.loop.move(TIMEOUT_S / 10)
        assert connection.wire.is_aborted == (taken < 1)


def test_piece_by_piece_counts_as_much() -> None:
    with connected() as connection:
        connection.send(GET)
        for _ in range(40):
            connection.stall(int(1.5 * MIN_SEND_BYTES_S * TIMEOUT_S / 10))
            connection.loop.move(TIMEOUT_S / 10)
            connection.take_all()
        assert not connection.wire.is_aborted


def test_a_closed_connection_does_not_wait_for_its_last_bytes() -> None:
    with connected() as connection:
        connection.send(GET)
        connection.stall(1 << 20)
        connection.wire.close()
        connection.loop.move(TIMEOUT_S * 1.01)
        assert connection.wire.is_aborted


def test_the_longest_wait_ends_where_too_much_is_unsent() -> None:
    unsent = Unsent(max_bytes=100)
    first, second, third = Wire(), Wire(), Wire()
    unsent.add(first, 60)
    unsent.add(second, 30)
    unsent.remove(first)
    unsent.add(first, 60)  # it took something, so the second has waited longer
    unsent.add(third, 20)
    assert (first.is_aborted, second.is_aborted, third.is_aborted) == (False, True, False)
    assert unsent.bytes == 80


BAD_CHUNK = b"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"


@pytest.mark.parametrize("second", [BAD_CHUNK, b"\x00\r\n\r\n"], ids=["its chunks", "its head"])
def test_an_error_answers_its_own_request(second: bytes) -> None:
    """Not the one before it, which is still being answered."""
    with connected() as connection:
        connection.send(HEAD + b"x" * BODY_BYTES + second)
        connection.send(b"more of it")
        connection.loop.move(0.0)
        answers = re.findall(rb"HTTP/1.1 (\d+)", connection.wire.written)
        assert answers == [b"202", b"400"]
        assert connection.wire.is_closing()
        assert connection.received_bytes == BODY_BYTES

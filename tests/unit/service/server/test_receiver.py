"""Large bodies past the parser, into buffers that are used again."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.formats.buffers import Buffers
from service.server.large_bodies import LARGE_BYTES
from service.server.receiver import FLUSH_S, MIN_VIEW_BYTES
from tests.support.http.wire import Connection, connected

NEXT = b"POST /next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nnext"


def request(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def send(connection: Connection, data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    for begin, end in pairwise(edges):
        connection.send(data[begin:end])


@given(
    beyond=st.integers(0, 3 << 20),
    cuts=st.lists(st.integers(0, 1 << 24), max_size=12),
    seed=st.integers(0, 9),
    few=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_bodies_come_whole_however_they_are_cut(beyond: int, cuts: list[int], seed: int, few: bool) -> None:
    """And so do the requests behind them on the same connection."""
    bodies = [random.Random(seed + each).randbytes(LARGE_BYTES + beyond) for each in range(2)]
    with connected() as connection:
        if few:
            type(connection.protocol).buffers = Buffers(count=1, size=MIN_VIEW_BYTES)
        send(connection, b"".join(request(body) + NEXT for body in bodies), cuts)
        for _ in range(8):
            connection.loop.move(0.0)
        assert connection.received == [bodies[0], b"next", bodies[1], b"next"]
        assert connection.wire.written.count(b"HTTP/1.1 202") == 4


def test_what_came_is_passed_on_though_more_is_awaited() -> None:
    with connected() as connection:
        connection.send(request(bytes(2 * LARGE_BYTES))[: MIN_VIEW_BYTES // 2])
        connection.send(b"x" * 1000)
        came = connection.taken_bytes
        connection.loop.move(2 * FLUSH_S)
        assert connection.taken_bytes == came + 1000


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_buffer_is_lent_while_no_view_of_it_is_left(count: int) -> None:
    buffers = Buffers(count=count, size=100)
    lent = [buffers.take() for _ in range(count)]
    assert None not in lent and buffers.take() is None
    if count:
        part = lent[0][1:5]  # type: ignore[index]
        del lent[0]
        assert buffers.take() is None, "a part of it is in use"
        del part
        again = buffers.take()
        assert again is not None and len(again) == 100


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_head_in_two_pieces_is_no_larger_for_the_body_behind_it(cut: int) -> None:
    body = bytes(4 * MIN_VIEW_BYTES)
    with connected() as connection:
        send(connection, request(body) + NEXT, [cut])
        assert connection.received == [body, b"next"]

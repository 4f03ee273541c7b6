"""Many clients in one thread, against a server that answers in pieces."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import pytest

from benchmarks.measure.http.load import Load, Request, rate

BODY = bytes(range(256)) * 2000
# A header whose name ends like the one that counts, before it.
HEAD = b"HTTP/1.1 %s\r\nInference-Header-Content-Length: 3\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def server(status: bytes = b"200 OK") -> Iterator[int]:
    """Answers whatever comes in requests of known length with BODY; its port."""

    def answer(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # a client that has met an error leaves
            received = b""
            while data := connection.recv(1 << 16):
                received += data
                while b"\r\n\r\nend" in received:
                    received = received.partition(b"\r\n\r\nend")[2]
                    head = HEAD % (status, len(BODY))
                    for piece in (head[:20], head[20:] + BODY[:9], BODY[9:]):
                        connection.sendall(piece)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def request(port: int) -> Request:
    return Request(port, "POST", "/", {}, b"end")


def test_a_burst_has_a_whole_reply_for_each_request() -> None:
    with server() as port, Load(port, 5) as load:
        for _ in range(3):
            replies = load.burst([request(port).whole] * 5)
            assert len(replies) == 5
            assert all(reply.endswith(b"\r\n\r\n" + BODY) for reply in replies)


@pytest.mark.parametrize("processes", [1, 2])
def test_every_reply_counts_once(processes: int) -> None:
    with server() as port:
        found = rate(request(port), clients=3, seconds=0.2, processes=processes)
    assert found.replies >= 3 and found.seconds >= 0.2
    assert found.per_s == found.replies / found.seconds


def test_an_error_ends_the_measurement() -> None:
    with server(b"503 Service Unavailable") as port, pytest.raises(RuntimeError, match="503"):
        rate(request(port), clients=2, seconds=0.1)

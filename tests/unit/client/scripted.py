"""A server that answers with bytes that are written down, and may cut them off."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread

BODY = b"\x00\x00\x80\x3f"  # 1.0, as float32
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx-matmul-dtype: float32\r\nx-matmul-shape: 1,1\r\n"
    b"location: /v1/jobs/job_1\r\n\r\n"
)
WHOLE, HALF, SILENCE = HEAD + BODY, HEAD + BODY[:2], b""
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nlocation: /v1/jobs/job_1\r\n\r\n"
CANCELLED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"


class Scripted:
    """`heads` are the requests that came, without their bodies. One that is answered by silence stays open."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.heads: list[bytes] = []
        self.asked = Event()
        self._answers = answers
        self._open: list[socket.socket] = []
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            received = connection.makefile("rb")
            head = b"".join(iter(received.readline, b"\r\n"))
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
            received.read(int(length.split(b":")[1]))
            self.heads.append(head)
            self.asked.set()
            if answer:
                with suppress(OSError):  # who asked may have gone
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._open:
            connection.close()


@contextmanager
def scripted(*answers: bytes) -> Iterator[Scripted]:
    server = Scripted(answers)
    try:
        yield server
    finally:
        server.close()


def keys(server: Scripted) -> list[bytes]:
    """The Idempotency-Key of each request."""
    lines = [line for head in server.heads for line in head.lower().split(b"\r\n")]
    return [line.partition(b": ")[2] for line in lines if line.startswith(b"idempotency-key")]

"""Sends bytes and reads what a server answers, by the letter of HTTP/1.1."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

MAX_ANSWER_BYTES = 64 << 20


class NoAnswer(Exception):
    """The connection ended, or nothing came in time."""


class ClosedWhileIdle(NoAnswer):
    """A connection that had been used before ended, and nothing of an answer had come."""


class BadAnswer(Exception):
    """What came is not HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def closes(self) -> bool:
        return b"close" in self.headers.get(b"connection", b"").lower() or self.is_stream

    @property
    def is_stream(self) -> bool:
        """Server-sent events: they have no end."""
        return self.headers.get(b"content-type", b"").startswith(b"text/event-stream")


class Connection:
    """One connection, opened when it is needed."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._rest = b""
        self._is_used = False  # before the request under way

    def exchange(self, wire: bytes, *, has_body: bool, timeout_s: float) -> Answer:
        """Raises NoAnswer, BadAnswer. `has_body`: whether an answer to this method has one.

        A server may close an idle connection just when the next request is sent: it is then sent once more, on a new
        one (RFC 9112, section 9.3.1)."""
        try:
            return self._exchange(wire, has_body, timeout_s)
        except ClosedWhileIdle:
            return self._exchange(wire, has_body, timeout_s)

    def _exchange(self, wire: bytes, has_body: bool, timeout_s: float) -> Answer:
        self._is_used = self._socket is not None
        if self._socket is None:
            self._socket, self._rest = socket.create_connection(self._address, timeout=timeout_s), b""
        deadline = time.monotonic() + timeout_s
        try:
            self._socket.settimeout(timeout_s)
            self._send(wire)
            answer = self._answer(has_body, deadline)
        except (NoAnswer, BadAnswer):
            self.close()
            raise
        if answer.closes:
            self.close()
        return answer

    def _send(self, wire: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.sendall(wire)
        except ConnectionError:
            pass  # it answered before the end; the answer may still be there
        except TimeoutError:
            raise NoAnswer("the request was not taken in time") from None

    def _answer(self, has_body: bool, deadline: float) -> Answer:
        while True:
            head = self._until_blank_line(deadline)
            status, headers = _parsed(head)
            if status >= 200:
                break
        answer = Answer(status, headers, b"")
        if not has_body or status in (204, 304) or answer.is_stream:
            return answer
        return Answer(status, headers, self._body(headers, deadline))

    def _body(self, headers: dict[bytes, bytes], deadline: float) -> bytes:
        if b"content-length" in headers:
            return self._exactly(int(headers[b"content-length"]), deadline)
        if headers.get(b"transfer-encoding") != b"chunked":
            raise BadAnswer(f"an answer without an end: {headers}")
        pieces = []
        while size := int(self._line(deadline), 16):
            pieces.append(self._exactly(size + 2, deadline)[:-2])
        self._line(deadline)
        return b"".join(pieces)

    def _until_blank_line(self, deadline: float) -> bytes:
        while b"\r\n\r\n" not in self._rest:
            self._more(deadline)
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        return head

    def _line(self, deadline: float) -> bytes:
        while b"\r\n" not in self._rest:
            self._more(deadline)
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line

    def _exactly(self, size: int, deadline: float) -> bytes:
        if size > MAX_ANSWER_BYTES:
            raise BadAnswer(f"an answer of {size} bytes")
        while len(self._rest) < size:
            self._more(deadline)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _more(self, deadline: float) -> None:
        assert self._socket is not None
        try:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            piece = self._socket.recv(1 << 16)
        except TimeoutError:
            raise NoAnswer("nothing came in time") from None
        except ConnectionError as error:
            raise self._ended(f"the connection broke: {error}") from None
        if not piece:
            raise self._ended("the connection was closed")
        self._rest += piece

    def _ended(self, how: str) -> NoAnswer:
        return ClosedWhileIdle(how) if self._is_used and not self._rest else NoAnswer(how)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _parsed(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    line, *lines = head.split(b"\r\n")
    version, _, rest = line.partition(b" ")
    if version != b"HTTP/1.1" or not rest[:3].isdigit():
        raise BadAnswer(f"no status line: {line[:80]!r}")
    headers: dict[bytes, bytes] = {}
    for each in lines:
        name, colon, value = each.partition(b":")
        if not colon or b"\n" in each or b"\r" in each:
            raise BadAnswer(f"no header: {each[:80]!r}")
        headers[name.lower()] = value.strip()
    return int(rest[:3]), headers

"""HTTP/1.1 as a caller under faults needs it: one connection, no retries, and every way to break off in the middle."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
TIMEOUT_S = 6.0
RST = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """Its value; empty where there is none."""
        for line in self.head.split(b"\r\n"):
            key, _, value = line.partition(b":")
            if key.lower() == name.encode():
                return value.strip().decode("latin-1")
        return ""

    def json(self) -> Any:
        return json.loads(self.body)


def request(method: str, path: str, key: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
    """`key`: an API key."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {HOST}",
        f"Authorization: Bearer {key}",
        *(f"{key}: {value}" for key, value in (headers or {}).items()),
    ]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Wire:
    """A connection to one port, opened when it is needed and kept. For one thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def ask(self, sent: bytes, timeout_s: float = TIMEOUT_S) -> Reply:
        """Raises OSError where no whole reply came, and then is closed."""
        try:
            self._send(sent, timeout_s)
            return self._read()
        except OSError:
            self.close()
            raise

    def abandon(self, sent: bytes, read_bytes: int) -> None:
        """Sends, reads so much of the reply and resets the connection."""
        with contextlib.suppress(OSError):
            self._send(sent, 1.0)
            assert self._socket is not None
            if read_bytes:
                self._socket.recv(read_bytes)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        self.close()

    def _send(self, sent: bytes, timeout_s: float) -> None:
        if self._socket is None:
            self._socket = socket.create_connection((HOST, self._port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(timeout_s)
        self._socket.sendall(sent)

    def _read(self) -> Reply:
        data = self._more(b"")
        while (end := data.find(b"\r\n\r\n")) < 0:
            data = self._more(data)
        head, body = data[:end], data[end + 4 :]
        reply = Reply(int(head[9:12]), head, body)
        if reply.status in (204, 304):
            return reply
        length = int(reply.header("content-length") or -1)
        if length < 0:
            raise OSError("a reply without a length")
        pieces, got = [body], len(body)
        while got < length:
            pieces.append(self._more(b""))
            got += len(pieces[-1])
        if reply.header("connection") == "close":
            self.close()
        return Reply(reply.status, head, b"".join(pieces))

    def _more(self, data: bytes) -> bytes:
        assert self._socket is not None
        if not (piece := self._socket.recv(1 << 18)):
            raise OSError("the connection ended within a reply")
        return data + piece

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

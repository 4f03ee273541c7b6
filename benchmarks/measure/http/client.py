"""A keep-alive HTTP/1.1 client with little overhead, so that the server is what is timed. For servers on this host."""

from __future__ import annotations

import io
import socket
import time
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

HEAD_BYTES = 1 << 16
MAX_IDLE_S = 5.0  # a server closes what idles for longer: uvicorn by default after 5 s, our service after 30


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, lower-case headers and body of one reply; the body is valid until the connection's next request."""

    status: int
    headers: dict[str, str]
    body: memoryview


class Connection:
    """One connection; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._host = f"{host}:{port}"
        self._buffer = bytearray()  # for bodies, reused by the next reply
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _open(self) -> None:
        self._socket = socket.create_connection(self._address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._used_at = time.monotonic()

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Reply:
        """Sends one request and reads its whole reply, which must have a Content-Length."""
        if time.monotonic() - self._used_at >= MAX_IDLE_S:
            self._socket.close()
            self._open()
        head = request_head(self._host, method, path, headers, len(body))
        if len(body) < HEAD_BYTES:
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)
        reply = self._reply()
        self._used_at = time.monotonic()
        return reply

    def _reply(self) -> Reply:
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._received(HEAD_BYTES)
        first, *rest = received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        size = int(headers.get("content-length", "0"))
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        body = memoryview(self._buffer)[:size]
        have = len(received) - end - 4
        body[:have] = received[end + 4 :]
        while have < size:
            count = self._socket.recv_into(body[have:])
            if count == 0:
                raise ConnectionError("the server closed the connection inside a reply")
            have += count
        return Reply(int(first.split()[1]), headers, body)

    def _received(self, max_bytes: int) -> bytes:
        data = self._socket.recv(max_bytes)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def request_head(host: str, method: str, path: str, headers: dict[str, str], body_bytes: int) -> bytes:
    """Everything in a request before its body."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", f"Content-Length: {body_bytes}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def npy_bytes(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def multipart(parts: dict[str, bytes], content_type: str) -> tuple[str, bytes]:
    """(Content-Type, body) of a multipart/form-data request with one part a name."""
    boundary = "matmul-boundary-7f3a91c2d4"
    pieces: list[bytes] = []
    for name, content in parts.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.npy"\r\n'
        pieces += [f"{head}Content-Type: {content_type}\r\n\r\n".encode(), content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(pieces)

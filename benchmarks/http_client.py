"""A keep-alive HTTP/1.1 client that costs little, so that what is timed is the server. Loopback and tests only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, lower-case headers and body of one reply."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._writer is not None
        self._writer.close()
        await self._writer.wait_closed()

    async def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Reply:
        """Sends one request and reads its whole reply (which must carry a Content-Length)."""
        assert self._reader is not None and self._writer is not None
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}:{self._port}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._writer.write(body)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        reply_headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in head[1:] if line)}
        content = await self._reader.readexactly(int(reply_headers.get("content-length", "0")))
        return Reply(int(head[0].split()[1]), reply_headers, content)


def multipart(parts: dict[str, bytes], content_type: str) -> tuple[str, bytes]:
    """(Content-Type, body) of a multipart/form-data request with one part a name."""
    boundary = "matmul-boundary-7f3a91c2d4"
    pieces: list[bytes] = []
    for name, content in parts.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}.npy"\r\n'
        pieces += [f"{head}Content-Type: {content_type}\r\n\r\n".encode(), content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(pieces)

"""Replies of unknown length to HTTP/1.0 clients, such as event streams. HTTP/1.0 has no chunked encoding, so the end of
the connection is the end of the reply (RFC 9112, section 6.3).
"""

from __future__ import annotations

import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.server.pipeline import PipelinedProtocol

OLD_VERSION = "1.0"
BODILESS = frozenset({204, 304})


class UnframedProtocol(PipelinedProtocol):
    """uvicorn's protocol sends such replies chunked to every client."""

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle.scope["http_version"] == OLD_VERSION:
            cycle.send = _Unframed(cycle).send  # type: ignore[method-assign]
        super()._start_asgi_task(cycle, app)


class _Unframed:
    """Sends a cycle's reply. uvicorn closes the connection after it, as after each reply to HTTP/1.0."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._send = cycle.send
        self._is_open_ended = False

    async def send(self, message: Any) -> None:
        cycle = self._cycle
        if message["type"] == "http.response.start":
            has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            self._is_open_ended = not has_length and message["status"] not in BODILESS
        if self._is_open_ended:
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            cycle.chunked_encoding = False
            cycle.expected_content_length = len(message.get("body", b"")) if is_last else sys.maxsize
        await self._send(message)

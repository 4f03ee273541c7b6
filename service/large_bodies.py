"""uvicorn's httptools protocol with fewer copies of large bodies: what is known to be body passes the parser by."""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGE_BYTES = 1 << 20  # a smaller body stays with the parser


class LargeBodyProtocol(HttpToolsProtocol):
    """A body of declared length is counted down here once its head is parsed; a fresh parser reads what follows it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._left_bytes = 0  # of a large body; 0 where the parser is at work

    def data_received(self, data: bytes) -> None:
        if not self._left_bytes:
            super().data_received(data)
            return
        self._unset_keepalive_if_required()
        piece = data if len(data) <= self._left_bytes else data[: self._left_bytes]
        self.on_body(piece)
        if not self._left_bytes:
            self._next_message(data[len(piece) :])

    def _next_message(self, data: bytes) -> None:
        self.on_message_complete()
        self.parser = httptools.HttpRequestParser(self)
        if data:
            self.data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        lengths = [int(value) for name, value in self.headers if name == b"content-length"]  # the parser checked it
        self._left_bytes = lengths[0] if lengths and lengths[0] >= LARGE_BYTES else 0

    def on_body(self, body: bytes) -> None:
        self._left_bytes -= min(self._left_bytes, len(body))
        if not self.cycle.response_complete and not self.cycle.body:
            self.cycle.body = body  # type: ignore[assignment]  # as it is, so that `receive` has nothing to copy
            body = b""
        super().on_body(body)

"""uvicorn's httptools protocol where it counts down a body itself, past the parser: large ones, so that they are not
copied, and those that came with an Upgrade, which the parser would take for the other protocol's.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGE_BYTES = 1 << 20  # a smaller body stays with the parser


class LargeBodyProtocol(HttpToolsProtocol):
    """Once a head is parsed its body, of declared length, may pass here; a fresh parser reads what follows it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._left_bytes = 0  # of a body that passes here; 0 where the parser is at work

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._left_bytes:
            self._pass(data)
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:  # no other protocol is spoken here: on with HTTP
            self._read_on(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self.send_400_response(str(error))

    def _pass(self, data: bytes) -> None:
        piece = data if len(data) <= self._left_bytes else data[: self._left_bytes]
        self.on_body(piece)
        if not self._left_bytes:
            self.on_message_complete()
            self._read_on(data[len(piece) :])

    def _read_on(self, data: bytes) -> None:
        """With a parser that knows nothing of what came before."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        if data:
            self.data_received(data)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        lengths = [int(value) for name, value in self.headers if name == b"content-length"]  # the parser checked it
        length = lengths[0] if lengths else 0
        self._left_bytes = length if length >= LARGE_BYTES or self.parser.should_upgrade() else 0

    def on_body(self, body: bytes) -> None:
        self._left_bytes -= min(self._left_bytes, len(body))
        if not self.cycle.response_complete and not self.cycle.body:
            self.cycle.body = body  # type: ignore[assignment]  # as it is, so that `receive` has nothing to copy
            body = b""
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._left_bytes:  # else it is the parser, which takes an Upgrade for the end
            super().on_message_complete()

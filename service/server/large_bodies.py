"""uvicorn's httptools protocol, extended to read some bodies without the parser: large ones, which a receiver reads
with few steps and copies, and those of requests with an Upgrade header, which the parser would treat as the other
protocol's data.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import httptools

from jobs.formats.buffers import Buffers
from service.api_process.body_bytes import EXTENSION, MAX_READERS, BodyBytes
from service.server.receiver import Connection, Pieces, Receiver
from service.server.sending import SendingProtocol

LARGE_BYTES = 1 << 20  # a smaller body stays with the parser
_READ_BY: set[asyncio.BaseProtocol] = set()  # connections that threads read at this moment
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


class LargeBodyProtocol(SendingProtocol, Connection):
    """After the head is parsed, a body of declared length may bypass the parser; a new parser reads what follows it."""

    buffers: ClassVar[Buffers]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pieces: Pieces | None = None  # of the large body being received
        self._receiver: Receiver | None = None  # of that body
        self._left_bytes = 0  # of a body that bypasses the parser; 0 while the parser is active
        self._chunks_follow = False  # the parser stopped before a chunked body
        self._is_replayed = False  # the parser is reading a synthetic head, not the client's

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        rest: bytes | None = data
        while rest and self._last_words is None and not self.transport.is_closing():
            rest = self._pass(rest) if self._left_bytes else self._parse(rest)
        if self._left_bytes and self._pieces is not None and not self.transport.is_closing():
            self._receive_rest()

    def _receive_rest(self) -> None:
        self._receiver = Receiver(self, self._left_bytes, self.buffers)
        self._read_by(self._receiver)

    def _read_by(self, protocol: asyncio.BaseProtocol) -> None:
        """Makes the transport read with this protocol: it checks how to read only when reading starts."""
        is_reading = not self.flow.read_paused
        if is_reading:
            self.transport.pause_reading()
        self.transport.set_protocol(protocol)
        if is_reading:
            self.transport.resume_reading()

    # ---- called by a receiver ----
    def body_received(self, size: int) -> None:
        self._left_bytes -= size

    def pass_on(self, piece: bytes | memoryview) -> None:
        if self._pieces is not None and self._last_words is None and not self.cycle.response_complete:
            self._pieces.add(piece)

    def body_ended(self) -> None:
        if self.transport.is_closing():
            return
        self.on_message_complete()
        if self.transport.is_closing():
            return
        self._receiver = None
        self._take_new_parser()
        self._read_by(self)

    # ---- called by the application, in the event loop ----
    @contextmanager
    def by_thread(self) -> Iterator[BodyBytes | None]:
        """The next bytes of a large body, for a thread: meanwhile this connection reads nothing. None where some wait
        in this process, or enough threads read."""
        pieces, receiver = self._pieces, self._receiver
        is_idle = pieces is not None and receiver is not None and not (pieces.wait or receiver.holds_bytes)
        if not (is_idle and self._left_bytes) or self.transport.is_closing() or len(_READ_BY) >= MAX_READERS:
            yield None
            return
        self.flow.pause_reading()
        fd = os.dup(self.transport.get_extra_info("socket").fileno())  # stays what it is if the connection is closed
        _READ_BY.add(self)
        coming = BodyBytes(fd, self._left_bytes)
        try:
            yield coming
        finally:
            _READ_BY.remove(self)
            os.close(fd)
            self.body_received(coming.came_bytes)
            if not self._left_bytes:
                self.body_ended()
            elif not self.transport.is_closing():
                self._receive_rest()

    def _parse(self, data: bytes) -> bytes | None:
        """Parses data; returns what the parser left over."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:  # no other protocol is supported: continue with HTTP
            self._take_new_parser()
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            self.send_400_response(str(error))
        return None

    def _pass(self, data: bytes) -> bytes | None:
        """Passes body bytes on; returns what follows the body."""
        piece = data if len(data) <= self._left_bytes else data[: self._left_bytes]
        self.on_body(piece)
        if self._left_bytes:
            return None
        self.on_message_complete()
        self._take_new_parser()
        return data[len(piece) :]

    def _take_new_parser(self) -> None:
        """Creates a new parser without earlier state, except that chunks follow, if they do."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        if self._chunks_follow:
            self._chunks_follow, self._is_replayed = False, True
            self.parser.feed_data(CHUNKED_HEAD)
            self._is_replayed = False

    def on_message_begin(self) -> None:
        if not self._is_replayed:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_replayed:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_replayed:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_replayed:
            return
        super().on_headers_complete()
        length = self.declared_bytes
        is_upgrade = self.parser.should_upgrade()
        self._left_bytes = length if length >= LARGE_BYTES or is_upgrade else 0
        self._pieces = Pieces(self.cycle) if length >= LARGE_BYTES and not is_upgrade else None
        if self._pieces is not None:
            scope: Any = self.cycle.scope
            scope["extensions"] = {EXTENSION: self.by_thread}
        self._chunks_follow = is_upgrade and any(name == b"transfer-encoding" for name, _ in self.headers)

    @property
    def declared_bytes(self) -> int:
        """The request's Content-Length, which the parser checked; 0 without one."""
        return next((int(value) for name, value in self.headers if name == b"content-length"), 0)

    def on_body(self, body: bytes) -> None:
        self._left_bytes -= min(self._left_bytes, len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._left_bytes and not self._chunks_follow:  # otherwise the parser, which takes an Upgrade for the end
            super().on_message_complete()

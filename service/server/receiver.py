"""Receives a large body from the socket into reusable buffers, and passes them on when they are full."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

from jobs.formats.buffers import Buffers

SCRATCH_BYTES = 64 << 10
FLUSH_S = 0.05  # received bytes are passed on at the latest after this time
MIN_VIEW_BYTES = 256 << 10  # less is copied: a view keeps its whole buffer
MUCH_BYTES = 256 << 10  # waiting for their application, above which reading pauses
_SCRATCH = memoryview(bytearray(SCRATCH_BYTES))  # each read's bytes are copied before the next one


class Connection(asyncio.BaseProtocol):
    """What a receiver needs of the HTTP protocol that it replaces."""

    flow: FlowControl
    loop: asyncio.AbstractEventLoop

    @abstractmethod
    def body_received(self, size: int) -> None:
        """Reports that `size` bytes were received; they are passed on later."""

    @abstractmethod
    def pass_on(self, piece: bytes | memoryview) -> None:
        """Passes on the body's next bytes."""

    @abstractmethod
    def body_ended(self) -> None:
        """Reports that all bytes have been passed on."""


class Receiver(asyncio.BufferedProtocol):
    """Replaces a connection's HTTP protocol until `missing_bytes` have been received. Reads no byte beyond them."""

    def __init__(self, connection: Connection, missing_bytes: int, buffers: Buffers) -> None:
        self._connection = connection
        self._missing_bytes = missing_bytes
        self._buffers = buffers
        self._buffer: memoryview | None = None  # None if nothing waits to be passed on
        self._filled_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._buffer is None:
            self._buffer = self._buffers.take()
        if self._buffer is None:
            return _SCRATCH[: self._missing_bytes]
        return self._buffer[self._filled_bytes : self._filled_bytes + self._missing_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        self._missing_bytes -= nbytes
        self._connection.body_received(nbytes)
        if self._buffer is None:
            self._connection.pass_on(bytes(_SCRATCH[:nbytes]))
        else:
            self._filled_bytes += nbytes
            if self._filled_bytes == len(self._buffer) or not self._missing_bytes:
                self._flush()
            elif self._timer is None:
                self._timer = self._connection.loop.call_later(FLUSH_S, self._flush)
        if not self._missing_bytes:
            self._connection.body_ended()

    @property
    def holds_bytes(self) -> bool:
        """Whether some were received and not yet passed on."""
        return self._filled_bytes > 0

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        buffer, filled_bytes = self._buffer, self._filled_bytes
        self._timer, self._buffer, self._filled_bytes = None, None, 0
        if buffer is not None:
            piece = buffer[:filled_bytes]
            self._connection.pass_on(piece if filled_bytes >= MIN_VIEW_BYTES else bytes(piece))

    # ---- everything but reading ----
    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


class Pieces:
    """The received pieces of one request's body until the application takes them, instead of uvicorn's copies."""

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle
        self._receive = cycle.receive
        self._waiting: deque[bytes | memoryview] = deque()
        self._waiting_bytes = 0
        cycle.receive = self.receive

    @property
    def wait(self) -> bool:
        """Whether there are any."""
        return bool(self._waiting or self._cycle.body)

    def add(self, piece: bytes | memoryview) -> None:
        self._waiting.append(piece)
        self._waiting_bytes += len(piece)
        if self._waiting_bytes >= MUCH_BYTES:
            self._cycle.flow.pause_reading()  # until the application asks for more
        self._cycle.message_event.set()

    async def receive(self) -> Any:
        """The ASGI message with the next pieces; pieces that uvicorn already had come first."""
        message = await self._receive()
        if message["type"] == "http.request" and self._waiting:
            if not message["body"]:
                message["body"] = self._waiting.popleft()
                self._waiting_bytes -= len(message["body"])
            if self._waiting:
                message["more_body"] = True
                self._cycle.message_event.set()
        return message

"""Answers that come before the end of their request's body, where the connection is closed behind them.

A socket that is closed with bytes unread resets the connection, and a client that sends all of a body before it reads,
as Python's urllib does, then sees the reset in place of the answer. So the rest is read first (RFC 9112, section 9.6).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.server.large_bodies import LargeBodyProtocol

JOINED_BYTES = 64 << 10  # of a body that is copied behind its head


class LingeringProtocol(LargeBodyProtocol):
    """Closes a connection once the body is there whose answer was the last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lingers = False

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if not self._is_replayed:
            self.cycle.transport = _Answer(self, self.cycle)

    def end(self, cycle: RequestResponseCycle) -> None:
        """What a cycle asks for behind the last answer, or in the middle of one that cannot be completed."""
        if cycle is self.cycle and cycle.response_complete and cycle.more_body:
            self._lingers = True
        else:
            self.transport.close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._lingers and not self._left_bytes and not self._chunks_follow:
            self.transport.close()


class _Answer(asyncio.Transport):
    """The transport as a cycle has it. The head of a reply goes out together with what follows it, because each write
    is a system call. Closing the connection is the connection's to decide.
    """

    def __init__(self, connection: LingeringProtocol, cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle
        self._transport = connection.transport
        self._is_head_next = cycle.scope["method"] != "HEAD"  # to a HEAD uvicorn writes the head alone
        self._head = b""  # until more is written
        self.is_closing = connection.transport.is_closing  # type: ignore[method-assign]

    def write(self, data: Any) -> None:
        if self._is_head_next and self._cycle.response_started:  # not so with `100 Continue`
            self._is_head_next, self._head = False, data
        elif not self._head:
            self._transport.write(data)
        elif len(data) <= JOINED_BYTES:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            self._flush()
            self._transport.write(data)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def close(self) -> None:
        self._flush()
        self._connection.end(self._cycle)

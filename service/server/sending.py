"""Limits on clients that do not read: how long a reply may stay unsent, and how many bytes all unsent replies may
have.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from contextlib import suppress
from typing import Any, ClassVar

from service.server.unframed import UnframedProtocol

MIN_SEND_BYTES_S = 4 << 10  # of a reply; a client that takes less than this each second is not waited for
UNSENT_BYTES = 256 << 20  # of all connections whose application waits; beyond it, the one that waits longest is closed
KERNEL_UNSENT_BYTES = 128 << 10  # of one connection that the kernel holds in addition to bytes in flight

# Keepalive for clients that vanished silently, such as behind a NAT: probed after IDLE_S, then COUNT times.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT = 15, 5, 3
USER_TIMEOUT_MS = 30_000  # for bytes that were sent but not acknowledged
_OPTIONS = (
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
    ("TCP_KEEPCNT", KEEPALIVE_COUNT),
    ("TCP_USER_TIMEOUT", USER_TIMEOUT_MS),
    ("TCP_NOTSENT_LOWAT", KERNEL_UNSENT_BYTES),
)


class Unsent:
    """The unsent bytes of all connections of a process with slow clients, longest wait first."""

    def __init__(self, max_bytes: int = UNSENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._waiting: OrderedDict[asyncio.Transport, int] = OrderedDict()
        self.bytes = 0

    def add(self, transport: asyncio.Transport, size: int) -> None:
        """Adds unsent bytes. If the total is too large, aborts the connections that have waited longest, but never the
        only one.
        """
        self._waiting[transport] = size
        self.bytes += size
        while self.bytes > self._max_bytes and len(self._waiting) > 1:
            oldest = next(iter(self._waiting))
            self.remove(oldest)
            oldest.abort()

    def remove(self, transport: asyncio.Transport) -> None:
        self.bytes -= self._waiting.pop(transport, 0)


class SendingProtocol(UnframedProtocol):
    """Counts the bytes of a reply that the client reads, in windows of `send_timeout_s`."""

    send_timeout_s: ClassVar[float]
    unsent: ClassVar[Unsent]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._paused_bytes = 0  # unsent bytes when the application had to wait; 0 if it need not
        self._taken_bytes = 0  # read by the client since the window began, except during a current wait
        self._sending_at: float | None = None  # when the window began; None while nothing is unsent

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(0)  # the application waits while anything is unsent
        _watch_over(transport.get_extra_info("socket"))
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.unsent.remove(self.transport)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._paused_bytes = self.transport.get_write_buffer_size()
        if self._sending_at is None:
            self._begin_window(self.loop.time())
        self.unsent.add(self.transport, self._paused_bytes)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._taken_bytes += self._paused_bytes
        self._paused_bytes = 0
        self.unsent.remove(self.transport)
        super().resume_writing()

    def _begin_window(self, now: float) -> None:
        self._sending_at, self._taken_bytes = now, 0

    def sending_left_s(self, now: float) -> float | None:
        """How much longer to wait for the client to read, in seconds; 0 if it reads too slowly, None if it has nothing
        to read.
        """
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            self._sending_at = None
            return None
        if self._sending_at is None:
            self._begin_window(now)
        assert self._sending_at is not None
        left_s = self._sending_at + self.send_timeout_s - now
        if left_s > 0:
            return left_s
        taken = self._taken_bytes + max(0, self._paused_bytes - unsent)
        if taken < MIN_SEND_BYTES_S * self.send_timeout_s:
            return 0.0
        self._begin_window(now)
        self._taken_bytes = -max(0, self._paused_bytes - unsent)  # these were counted
        return self.send_timeout_s


def _watch_over(connection: Any) -> None:
    """Turns on TCP keepalive for the client's connection. `connection` is a socket, or None."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):  # it was closed in the meantime
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS:
            if (option := getattr(socket, name, None)) is not None:  # these options exist only on Linux
                connection.setsockopt(socket.IPPROTO_TCP, option, value)

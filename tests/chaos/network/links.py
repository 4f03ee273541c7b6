"""TCP links that go wrong: each stands in front of one server, and passes bytes on as its mode says.

For one event loop. A connection is two pipes, one a direction; what a pipe may not pass on yet waits in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

Mode = Literal["plain", "slow", "hole", "trickle"]
METHODS = {b"PUT ": "put", b"GET ": "got"}  # with which a piece begins that begins a request
TRICKLE_BYTES, TRICKLE_S = 64, 0.01
SILENT_SHARE = 0.1  # of call faults: the caller hears nothing, rather than the end of its connection


@dataclass
class Link:
    """`call_fault_rate`: what share of calls never arrives, and as much again is carried out without an answer."""

    name: str
    host: str
    target: int
    rng: random.Random
    call_fault_rate: float = 0.0
    mode: Mode = "plain"
    delay_s: float = 0.0
    lines: set[Line] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: {"calls": 0, "before": 0, "executed": 0})
    traffic: Counter[str] = field(default_factory=Counter)  # bytes each way, and HTTP requests by method

    def set_mode(self, mode: Mode, delay_s: float = 0.0) -> None:
        """For connections there are and to come. `hole`: all is held back until the mode changes."""
        self.mode, self.delay_s = mode, delay_s
        for line in list(self.lines):
            line.pump()

    def cut(self) -> None:
        """Ends every connection, on both sides."""
        for line in list(self.lines):
            line.close()

    def reset(self) -> None:
        """The same by RST, and what was under way is thrown away."""
        for line in list(self.lines):
            line.reset()

    def half_open(self) -> None:
        """Every server sees its connection end; no client does, and what it sends goes nowhere."""
        for line in list(self.lines):
            line.go_deaf()

    def roll(self) -> Literal["passes", "before", "executed"]:
        """What becomes of a call."""
        self.counts["calls"] += 1
        if not self.call_fault_rate:
            return "passes"
        drawn = self.rng.random()
        if drawn >= 2 * self.call_fault_rate:
            return "passes"
        outcome: Literal["before", "executed"] = "before" if drawn < self.call_fault_rate else "executed"
        self.counts[outcome] += 1
        return outcome

    def ends_silently(self) -> bool:
        return self.rng.random() < SILENT_SHARE


class Pipe:
    """One direction of a connection."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.out: asyncio.Transport | None = None  # none until the server has answered

    def feed(self, data: bytes) -> None:
        if self._link.mode == "plain" and not self._waiting and self.out is not None:
            self._write(data)
            return
        self._waiting.append((asyncio.get_running_loop().time() + self._link.delay_s, data))
        self.pump()

    def pump(self) -> None:
        """Passes on what the mode lets through now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.out is None or self._link.mode == "hole":
            return
        loop = asyncio.get_running_loop()
        while self._waiting:
            due, data = self._waiting[0]
            if self._link.mode == "slow" and due > loop.time():
                self._timer = loop.call_at(due, self.pump)
                return
            self._waiting.popleft()
            if self._link.mode == "trickle":
                self._write(data[:TRICKLE_BYTES])
                if rest := data[TRICKLE_BYTES:]:
                    self._waiting.appendleft((due, rest))
                self._timer = loop.call_later(TRICKLE_S, self.pump)
                return
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Nothing, to an end that is closed already."""
        if self.out is not None and not self.out.is_closing():
            self.out.write(data)

    def drop(self) -> None:
        self._waiting.clear()


class Line:
    """One connection through a link."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.to_server, self.to_client = Pipe(link), Pipe(link)
        self._is_deaf = False
        self._loses_replies = False
        self._opening: asyncio.Task[None] | None = None

    def opened(self, client: asyncio.Transport) -> None:
        self.to_client.out = client
        self.link.lines.add(self)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _Side(self.server_opened, self.from_server, self.server_closed),
                self.link.host,
                self.link.target,
            )
        except OSError:
            self.reset()

    def server_opened(self, server: asyncio.Transport) -> None:
        self.to_server.out = server
        self.to_server.pump()
        if self._is_deaf or self.to_client.out is None or self.to_client.out.is_closing():
            server.close()  # what the client sent before it went is still passed on

    def from_client(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self.link.traffic["sent_bytes"] += len(data)
        if (method := data[:4]) in METHODS:
            self.link.traffic[METHODS[method]] += 1
        match self.link.roll():
            case "before":
                self._fail()
            case "executed":
                self._loses_replies = True
                self.to_server.feed(data)
            case "passes":
                self.to_server.feed(data)

    def from_server(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._loses_replies:
            self._fail()
        else:
            self.link.traffic["received_bytes"] += len(data)
            self.to_client.feed(data)

    def _fail(self) -> None:
        if self.link.ends_silently():
            self.go_deaf()
        else:
            self.reset()

    def client_closed(self) -> None:
        self.link.lines.discard(self)
        self.close()

    def server_closed(self) -> None:
        if not self._is_deaf:
            self.close()

    def pump(self) -> None:
        self.to_server.pump()
        self.to_client.pump()

    def go_deaf(self) -> None:
        self._is_deaf = True
        if self.to_server.out is not None:
            self.to_server.out.close()

    def close(self) -> None:
        for pipe in (self.to_server, self.to_client):
            if pipe.out is not None and not pipe.out.is_closing():
                pipe.out.close()

    def reset(self) -> None:
        for pipe in (self.to_server, self.to_client):
            pipe.drop()
            if pipe.out is not None and not pipe.out.is_closing():
                with contextlib.suppress(OSError):
                    end = cast(socket.socket, pipe.out.get_extra_info("socket"))
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                pipe.out.abort()


class _Side(asyncio.Protocol):
    """One end of a line."""

    def __init__(
        self,
        opened: Callable[[asyncio.Transport], None],
        received: Callable[[bytes], None],
        closed: Callable[[], None],
    ) -> None:
        self._opened, self._received, self._closed = opened, received, closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opened(cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._closed()


def accept(link: Link) -> _Side:
    """The protocol of a client's new connection."""
    line = Line(link)
    return _Side(line.opened, line.from_client, line.client_closed)

"""A connection to the server's own protocol, without a socket, under a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from jobs.settings import Settings
from service.server.deadlines import LimitedProtocol, protocol_class

TIMEOUT_S = 10.0


class ClockedLoop(asyncio.SelectorEventLoop):
    """Its time stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def move(self, seconds: float) -> None:
        """Lets that time pass, and runs what has become due."""
        self.now_s += seconds
        for _ in range(3):
            self.run_until_complete(asyncio.sleep(0))


class Wire(asyncio.Transport):
    """Keeps what the server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.protocol: asyncio.BaseProtocol | None = None
        self.is_closed = self.is_aborted = False
        self.unsent_bytes = 0  # what the client has not taken

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def receive(self, data: bytes) -> None:
        """As transports do it: a protocol that has buffers is asked for one for each read, until it closes."""
        while data and not self.is_closed and isinstance(self.protocol, asyncio.BufferedProtocol):
            buffer = memoryview(self.protocol.get_buffer(-1))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            del buffer
            self.protocol.buffer_updated(size)
            data = data[size:]
        if data and not self.is_closed:
            assert isinstance(self.protocol, asyncio.Protocol)
            self.protocol.data_received(data)

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Connection:
    """One to a server whose application reads every body whole and says how long it was."""

    def __init__(self, loop: ClockedLoop) -> None:
        self.loop, self.wire = loop, Wire()
        self.received: list[bytes] = []  # bodies
        self.taken_bytes = 0
        self.answers_at_once = False  # before the body
        config = Config(self._application, interface="asgi3", lifespan="off")
        config.load()
        protocol = protocol_class(Settings(receive_timeout_s=TIMEOUT_S, send_timeout_s=TIMEOUT_S))
        assert issubclass(protocol, LimitedProtocol)
        self.protocol = protocol(config=config, server_state=ServerState(), app_state={}, _loop=loop)
        self.wire.set_protocol(self.protocol)
        self.protocol.connection_made(self.wire)

    @property
    def received_bytes(self) -> int | None:
        """Of the last body."""
        return len(self.received[-1]) if self.received else None

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while not self.answers_at_once and (message := await receive())["type"] == "http.request":
            body += message["body"]
            self.taken_bytes += len(message["body"])
            if not message["more_body"]:
                break
        self.received.append(body)
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def send(self, data: bytes) -> None:
        self.wire.receive(data)
        self.loop.move(0.0)

    def stall(self, size: int) -> None:
        """The client stops reading while so much is unsent."""
        self.wire.unsent_bytes = size
        self.protocol.pause_writing()

    def take_all(self) -> None:
        self.wire.unsent_bytes = 0
        self.protocol.resume_writing()


@contextmanager
def connected() -> Iterator[Connection]:
    loop = ClockedLoop()
    try:
        opened = Connection(loop)
        yield opened
        opened.protocol.connection_lost(None)
        loop.move(0.0)
    finally:
        loop.close()

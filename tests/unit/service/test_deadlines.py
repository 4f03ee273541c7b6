"""How long a request's body is waited for: the server's protocol under a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from jobs.settings import Settings
from service.server.deadlines import MIN_BYTES, LimitedProtocol, protocol_class

TIMEOUT_S = 10.0
BODY_BYTES = 30_000
HEAD = b"POST /v1/matmul HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES


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
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_closed = True

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
        self.received_bytes: int | None = None
        config = Config(self._application, interface="asgi3", lifespan="off")
        config.load()
        protocol = protocol_class(Settings(receive_timeout_s=TIMEOUT_S))
        assert issubclass(protocol, LimitedProtocol)
        self.protocol = protocol(config=config, server_state=ServerState(), app_state={}, _loop=loop)
        self.protocol.connection_made(self.wire)

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        self.received_bytes = len(body)
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        self.loop.move(0.0)


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


@pytest.mark.parametrize("pieces", [12, 25])
def test_a_slow_but_steady_body_is_waited_for(pieces: int) -> None:
    """For many times the timeout in all."""
    with connected() as connection:
        connection.send(HEAD)
        for _ in range(pieces):
            connection.loop.move(TIMEOUT_S * 0.9)
            assert not connection.wire.is_closing()
            connection.send(b"x" * (BODY_BYTES // pieces))
        assert connection.received_bytes == BODY_BYTES
        assert connection.wire.written.startswith(b"HTTP/1.1 202")


def test_silence_is_waited_for_once() -> None:
    with connected() as connection:
        connection.send(HEAD + b"x" * (BODY_BYTES - 1))
        connection.loop.move(TIMEOUT_S * 0.99)
        assert not connection.wire.is_closing()
        connection.loop.move(TIMEOUT_S * 0.02)
        assert connection.wire.is_closing()
        assert connection.wire.written.startswith(b"HTTP/1.1 408")


def test_a_trickle_is_not_waited_for() -> None:
    """Less than the least within one timeout, though never silent."""
    with connected() as connection:
        connection.send(HEAD)
        for _ in range(20):
            connection.loop.move(TIMEOUT_S / 10)
            connection.send(b"x" * (MIN_BYTES // 20))
        assert connection.wire.written.startswith(b"HTTP/1.1 408")

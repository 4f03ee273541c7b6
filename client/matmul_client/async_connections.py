"""Connections of the client for event loops, over httpx2's transport.

The transport is used as it is, without httpx2's client: cookies, redirects and authentication flows, which this service
has none of, cost more time than a small product's whole request.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from math import inf
from typing import Any

import anyio
import anyio.lowlevel
import httpx2

from matmul_client.core.elements import BodyReader
from matmul_client.core.errors import MatmulError
from matmul_client.core.http import CONNECT_S, LATE, PIECE_BYTES, STALL_S, Service, broken, unreachable
from matmul_client.core.wire import LONGEST_S, Buffer, NoReply, Reply, Request, Sending

# Errors of a connection that was never made.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class AsyncConnections:
    """Kept open from one request to the next."""

    def __init__(self, service: Service, context: ssl.SSLContext | None) -> None:
        self._service = service
        # Without TLS no certificates are read: that takes time.
        self._transport = httpx2.AsyncHTTPTransport(verify=context or service.is_secure)
        self._loop: object = None
        self._url = lru_cache(maxsize=64)(lambda target: httpx2.URL(service.base + target))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def exchange(self, request: Request, deadline: float, sending: Sending | None = None) -> Reply | NoReply:
        """The whole reply, or the reason why there is none."""
        with anyio.move_on_after(deadline - time.monotonic()):
            async with self.opened(request, deadline, sending) as response:
                if isinstance(response, NoReply):
                    return response
                headers = headers_of(response)
                reader = BodyReader(headers)
                try:
                    async for piece in response.aiter_raw():
                        reader.feed(piece)
                except httpx2.TransportError as error:
                    return broken(self._service.url, error)
                return Reply(response.status_code, headers, reader.body())
        return NoReply(LATE, may_have_arrived=True)

    @asynccontextmanager
    async def opened(
        self, request: Request, deadline: float, sending: Sending | None = None, *, is_stream: bool = False
    ) -> AsyncIterator[httpx2.Response | NoReply]:
        """A reply whose body has not been read yet. The body of a stream may come after the deadline."""
        self._check_loop()
        sending = sending or Sending()
        sending.is_partial = True
        timeouts = Timeouts(deadline)
        asked = httpx2.Request(
            request.method,
            self._url(request.target),
            headers=self._service.headers(request),
            stream=Pieces(request.body, sending),  # given as a stream: httpx2 then adds no headers of its own
            extensions={"timeout": timeouts},
        )
        try:
            response = await self._transport.handle_async_request(asked)
        except httpx2.TransportError as error:
            tell = unreachable if isinstance(error, _NOT_SENT) else broken
            yield tell(self._service.url, error)
            return
        timeouts.stall_s = STALL_S
        timeouts.deadline = inf if is_stream else deadline
        try:
            yield response
        finally:
            await response.aclose()

    def _check_loop(self) -> None:
        """Connections end with the event loop that made them."""
        running = anyio.lowlevel.current_token()
        if self._loop is None:
            self._loop = running
        elif self._loop != running:
            raise MatmulError("This AsyncClient belongs to another event loop; make one in each.")


class Pieces(httpx2.AsyncByteStream):
    """A body in pieces: a small one in one, a large one in parts of its buffers, which are not copied here."""

    def __init__(self, buffers: tuple[Buffer, ...], sending: Sending) -> None:
        self._buffers = buffers
        self._sending = sending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = sum(map(len, self._buffers))
        if left <= PIECE_BYTES:
            self._sending.is_partial = False  # before the last of it is out of our hands
            yield b"".join(self._buffers)
            return
        for buffer in self._buffers:
            for start in range(0, len(buffer), PIECE_BYTES):
                piece = buffer[start : start + PIECE_BYTES]
                left -= len(piece)
                self._sending.is_partial = left > 0
                yield piece  # type: ignore[misc]  # a memoryview is written as bytes are


class Timeouts(dict[str, float]):
    """The timeouts of one request, none of whose phases may outlast the call. The transport reads them as each phase
    begins."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline
        self.stall_s = LONGEST_S  # until the reply begins: the service may wait for a job as long as it was asked to

    def get(self, phase: str, default: Any = None) -> Any:
        left_s = min(LONGEST_S, max(0.001, self.deadline - time.monotonic()))
        if phase == "read":
            return min(left_s, self.stall_s)
        return min(left_s, CONNECT_S) if phase == "connect" else left_s


def headers_of(response: httpx2.Response) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers.raw}

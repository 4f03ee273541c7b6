"""What both shells need to speak HTTP through httpx2's transports, which do the input and output.

The transports are used as they are, without httpx2's client: cookies, redirects and authentication flows, which this
service has none of, cost more time than a small product's whole request.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import lru_cache
from typing import Any

import httpx2

from matmul_client.core.errors import MatmulError
from matmul_client.core.wire import Buffer, Cut, Request
from matmul_client.version import __version__

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_S, DEFAULT_RETRIES = 300.0, 20
CLEAN_UP_S = 2.0  # how long a call that was given up may take to cancel its jobs
CONNECT_S, STALL_S = 10.0, 10.0  # to connect; between two pieces of a reply
LONGEST_S = 86400.0  # of one phase: a socket takes no endless time
PIECE_BYTES = 1 << 20  # of a body, handed to the transport at a time
LATE = "The reply did not come in time."
EVENTS_ENDED = "The stream of events ended early."
# Errors of a connection that was never made: the service has seen nothing of the request.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class Service:
    """Where the service is, and who asks: given, or MATMUL_URL and MATMUL_API_KEY."""

    def __init__(self, url: str | None, api_key: str | None) -> None:
        self.url = (url or os.environ.get("MATMUL_URL") or DEFAULT_URL).rstrip("/")
        try:
            self._base = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise MatmulError(f"The service's URL {self.url!r} is not one: {error}.") from None
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise MatmulError(f"The service's URL {self.url!r} is not one; give http://host:port.")
        key = api_key or os.environ.get("MATMUL_API_KEY")
        # Parsing an address takes as long as all else about a request, and most requests go to a few.
        self._url = lru_cache(maxsize=64)(lambda target: httpx2.URL(self.url + target))
        self._headers = [("host", self._base.netloc.decode()), ("user-agent", f"matmul-client/{__version__}")]
        self._headers += [("authorization", f"Bearer {key}")] if key else []

    @property
    def verify(self) -> bool:
        """Whether certificates are read: that takes time, and without TLS there are none."""
        return self._base.scheme == "https"

    def request(self, request: Request, timeouts: Mapping[str, Any]) -> httpx2.Request:
        headers = [*self._headers, *request.headers.items()]
        if request.body or request.method in ("POST", "PUT"):
            headers.append(("content-length", str(request.body_bytes)))
        return httpx2.Request(
            request.method,
            self._url(request.target),
            headers=headers,
            stream=Pieces(request.body),  # given as a stream: httpx2 then adds no headers of its own
            extensions={"timeout": timeouts},
        )


class Pieces(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body in pieces: a small one in one, a large one in parts of its buffers, which are not copied here."""

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self._buffers = buffers

    def __iter__(self) -> Iterator[bytes]:
        if sum(map(len, self._buffers)) <= PIECE_BYTES:
            yield b"".join(self._buffers)
            return
        for buffer in self._buffers:
            for start in range(0, len(buffer), PIECE_BYTES):
                yield buffer[start : start + PIECE_BYTES]  # type: ignore[misc]  # a memoryview is written as bytes are

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class Timeouts(dict[str, float]):
    """Of one request: none of its phases may outlive the call. The transport asks as each phase begins."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self._deadline = deadline
        self.stall_s = float("inf")  # until the reply begins: the service may wait for a job as long as it was asked to

    def get(self, phase: str, default: Any = None) -> Any:
        left_s = min(LONGEST_S, max(0.001, self._deadline - time.monotonic()))
        if phase == "read":
            return min(left_s, self.stall_s)
        return min(left_s, CONNECT_S) if phase == "connect" else left_s


def cut(error: Exception, url: str) -> Cut:
    """Why no whole reply came, as a sentence."""
    if isinstance(error, _NOT_SENT):
        return Cut(f"The service at {url} cannot be reached: {_words(error)}. Is it running?", may_have_arrived=False)
    return Cut(f"The connection to {url} broke off: {_words(error)}.", may_have_arrived=True)


def _words(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def headers_of(response: httpx2.Response) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers.raw}

"""Limits on clients that send nothing, or a byte at a time, or endless headers or chunks. The server enforces them
before any application code runs; uvicorn has no such limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from starlette.datastructures import Headers
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from jobs.errors import MalformedBody, MatmulError
from jobs.formats.buffers import Buffers
from jobs.matrices.indexed_store import UPLOAD_LEASE_S
from jobs.settings import Settings
from service.api_process.share import ALONE, Share
from service.middleware import SECURITY_HEADERS, request_id_of
from service.problems import (
    HeadersTooLarge,
    MalformedRequest,
    RequestTimedOut,
    TooManyConnections,
    problem_response,
)
from service.server.lingering import LingeringProtocol
from service.server.sending import Unsent

MAX_HEAD_BYTES = 64 << 10  # request line and headers
MAX_HEADERS = 200
BLANKS = b" \t"  # around a header's value, of which they are no part (RFC 9110, section 5.5)
MIN_BYTES = 1 << 10  # of a body within one receive timeout; more if a long body would otherwise take too long
FREE_CHUNKS, CHUNK_MEAN_BYTES = 16_384, 512  # chunks of a body, beyond which their mean size must not be smaller
DISCARD_BYTES = 128 << 20  # rest of a body that was answered before its end; beyond this the connection is closed
BUFFER_BYTES, MAX_BUFFERS = 1 << 20, 32  # buffers for receiving large bodies; if all are in use, bodies are copied
MAX_CONNECTIONS = 4096  # over all API processes


class LimitedProtocol(LingeringProtocol):
    """uvicorn's httptools protocol with limits."""

    receive_timeout_s: ClassVar[float]  # see `protocol_class`
    max_connections: ClassVar[int]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stage: Literal["idle", "head", "body"] = "idle"
        self._stage_at = self._heard_at = self._window_at = self.loop.time()  # stage began; bytes last received; …
        self._window_bytes = 0  # … bytes received since then
        self._head_bytes = self._parsed_head_bytes = 0  # in pieces of nothing but head; as counted from the parser
        self._heads = 0  # heads begun on this connection
        self._body_bytes = self._chunks = self._discarded_bytes = 0
        self._min_bytes = MIN_BYTES  # minimum for this body within one receive timeout
        self._refusal: MatmulError | None = None
        self._timer: asyncio.TimerHandle | None = None

    # ---- the connection ----
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again_in(self.receive_timeout_s)
        if len(self.connections) > self.max_connections:
            self._refuse(TooManyConnections())

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _hear(self, size: int) -> None:
        self._heard_at = self.loop.time()
        self._window_bytes += size

    def data_received(self, data: bytes) -> None:
        self._hear(len(data))
        heads, was_head = self._heads, self._stage == "head"
        super().data_received(data)
        if was_head and self._stage == "head" and self._heads == heads:  # otherwise the parser counted the head in it
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(_head_too_large())

    # ---- called by the parser; an error raised here reaches `send_400_response` ----
    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._is_replayed:
            return
        self._stage, self._stage_at = "head", self._heard_at
        self._head_bytes = self._parsed_head_bytes = 0
        self._heads += 1
        if self._timer is None:
            self._look_again_in(self.receive_timeout_s)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is counted and dropped: what comes behind a body must not be taken for a part
        of the head (RFC 9110, section 6.5.1).
        """
        if self._is_replayed:
            return
        if self._stage != "body":
            super().on_header(name, value.rstrip(BLANKS))  # the parser takes off only what is before a value
        self._count_head(len(name) + len(value))

    def _count_head(self, size: int) -> None:
        """Counts head bytes reported by the parser, in addition to those counted by `data_received`: a whole head may
        arrive in one piece, followed by a body, and the parser reports a header only when it is complete.
        """
        self._parsed_head_bytes += size
        if self._parsed_head_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._stop_parsing(_head_too_large())

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self._is_replayed:
            return
        self._stage, self._window_at = "body", self._heard_at
        self._min_bytes = max(MIN_BYTES, int(self.declared_bytes * self.receive_timeout_s / UPLOAD_LEASE_S))
        self._window_bytes = self._body_bytes = self._chunks = self._discarded_bytes = 0

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + self._body_bytes // CHUNK_MEAN_BYTES:
            self._stop_parsing(MalformedBody("The body comes in too many small chunks; send larger ones."))

    def on_body(self, body: bytes) -> None:
        self._count_body(len(body))
        super().on_body(body)

    def body_received(self, size: int) -> None:
        self._hear(size)
        self._count_body(size)
        super().body_received(size)

    def _count_body(self, size: int) -> None:
        self._body_bytes += size
        if self.cycle.response_complete:
            self._unset_keepalive_if_required()  # the client is not idle
            self._discarded_bytes += size
            if self._discarded_bytes > DISCARD_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._left_bytes or self._chunks_follow:
            return
        self._stage = "idle"
        if self.cycle.response_complete and not self.transport.is_closing():
            self._unset_keepalive_if_required()  # the answer came first, and its timer was cancelled by the body
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    # ---- deadlines: one timer, which checks what the connection waits for ----
    def _look_again_in(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Closes connections that take too long, and schedules the next check. A connection that is idle between
        requests has a timer of uvicorn, and a closing one has nothing to wait for once everything is sent.
        """
        self._timer = None
        now = self.loop.time()
        sending_left_s = self.sending_left_s(now)
        if sending_left_s == 0:
            self.transport.abort()  # `close` would wait until all is sent
            return
        coming_left_s = None if self.transport.is_closing() or self._last_words else self._timeout_s(now)
        if coming_left_s is not None and coming_left_s <= 0:
            self._give_up()
        lefts = [left_s for left_s in (sending_left_s, coming_left_s) if left_s is not None and left_s > 0]
        if lefts or self.is_answering or self.transport.get_write_buffer_size():
            self._look_again_in(min(lefts, default=min(self.receive_timeout_s, self.send_timeout_s)))

    def _give_up(self) -> None:
        if self._stage == "idle" or (self._stage == "body" and self.cycle.response_complete):
            self.transport.close()
        else:
            self._refuse(RequestTimedOut(f"The request's {self._stage} did not arrive in time; send it again."))

    def _timeout_s(self, now: float) -> float | None:
        """How much longer to wait for the client, in seconds; None if the server is not waiting for the client."""
        if self._stage == "body":
            return self._body_timeout_s(now)
        if self._stage == "head" or self.cycle is None:
            return self._stage_at + self.receive_timeout_s - now
        return None

    def _body_timeout_s(self, now: float) -> float:
        if self.flow.read_paused:  # this side is not reading
            self._heard_at = self._window_at = now
        elif now - self._window_at >= self.receive_timeout_s:
            if self._window_bytes < self._min_bytes:
                return 0.0
            self._window_at, self._window_bytes = now, 0
        return min(self._heard_at, self._window_at) + self.receive_timeout_s - now

    # ---- refusals ----
    def _stop_parsing(self, error: MatmulError) -> None:
        self._refusal = error
        raise error

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal or MalformedRequest())

    def _refuse(self, error: MatmulError) -> None:
        """Answers the request that is being received with an error, and closes the connection."""
        if not self.transport.is_closing() and self._last_words is None:
            cycle = self.cycle if self._stage == "body" else None
            self.end_with(_raw_response(error, {} if cycle is None else cycle.scope), cycle)


def _head_too_large() -> HeadersTooLarge:
    return HeadersTooLarge(
        f"A request line with its headers may have {MAX_HEAD_BYTES} bytes, and there may be {MAX_HEADERS} headers."
    )


def _raw_response(error: MatmulError, request: Mapping[str, Any]) -> bytes:
    """The problem document as raw HTTP, because no application sends it. `request`: the scope of the request; empty if
    its head was not received.
    """
    request_id = request_id_of(Headers(raw=request.get("headers", [])))
    scope: dict[str, Any] = {"path": request.get("path", "/"), "state": {"request_id": request_id}}
    headers_out = {"connection": "close", "x-request-id": request_id}
    response = problem_response(error, scope, headers_out, members={"error": error.detail})  # it may be for /v2
    headers = [name + b": " + value for name, value in [*response.raw_headers, *SECURITY_HEADERS]]
    return STATUS_LINE[response.status_code] + b"\r\n".join([*headers, b"", bytes(response.body)])


def protocol_class(settings: Settings, share: Share = ALONE) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's `http` setting."""
    limits = {
        "receive_timeout_s": settings.receive_timeout_s,
        "send_timeout_s": settings.send_timeout_s,
        "max_connections": share.of(MAX_CONNECTIONS),
        "unsent": Unsent(),
        "buffers": Buffers(MAX_BUFFERS, BUFFER_BYTES),
    }
    return type("Protocol", (LimitedProtocol,), limits)

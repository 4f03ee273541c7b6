"""The outermost middleware: request id, trace, security headers, HEAD as GET without the body, the figures of /metrics,
and a problem document for uncaught errors.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.errors import MatmulError
from jobs.logs import about
from jobs.random_hex import random_hex
from jobs.tracing.request_trace import current
from service.bodies.body import ClientGone
from service.http.tracing import answered, trace_of
from service.metrics import HttpMetrics
from service.problems import problem_response

REQUEST_ID = re.compile(r"[0-9A-Za-z._-]{1,64}")
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
HTTPS_ONLY = (b"strict-transport-security", b"max-age=31536000")

log = structlog.get_logger()


class OutermostMiddleware:
    """The service's outermost ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics, *, behind_tls: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._headers = [*SECURITY_HEADERS, *([HTTPS_ONLY] if behind_tls else [])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._headers)
        started = time.perf_counter()
        with exchange.named():
            try:
                await self._app(exchange.scope, receive, exchange.send)
            except ClientGone:
                pass
            except Exception as error:
                await exchange.fail(error, receive)
            finally:
                seconds = time.perf_counter() - started
                self._metrics.observe(exchange.scope, exchange.status, seconds)
                exchange.log(seconds)


def request_id_of(headers: Headers) -> str:
    """The caller's own, or a new one."""
    asked = headers.get("x-request-id", "")
    return asked if REQUEST_ID.fullmatch(asked) else random_hex(8)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, send: Send, security: list[tuple[bytes, bytes]]) -> None:
        self._security = security
        headers = Headers(scope=scope)
        self.request_id = request_id_of(headers)
        self._trace = trace_of(scope, headers, self.request_id)
        self.status = 0  # until the response starts
        self._location: str | None = None
        self._send = send
        self._head = scope["method"] == "HEAD"
        state = scope.get("state", {}) | {"request_id": self.request_id, "head": self._head}
        self.scope: Scope = {**scope, "state": state, "method": "GET" if self._head else scope["method"]}

    @contextmanager
    def named(self) -> Iterator[None]:
        """Within this context, log lines and submitted jobs have the request's id and trace."""
        tokens = current.set(self._trace), about.set(self._log_fields)
        try:
            yield
        finally:
            current.reset(tokens[0])
            about.reset(tokens[1])

    def _log_fields(self) -> Mapping[str, object]:
        return {"request_id": self.request_id} if self._trace is None else self._trace.log_fields

    def log(self, seconds: float) -> None:
        """Logs that the request was answered; status 0: the client disconnected before."""
        if logging.getLogger().isEnabledFor(logging.DEBUG):  # checked first because this runs for each request
            request = {"method": self.scope["method"], "path": self.scope["path"]}
            made = {} if self._location is None else {"location": self._location}
            log.debug("answered", status=self.status, seconds=round(seconds, 6), **request, **made)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": self._headers(message["headers"])}
        elif self._head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)

    def _headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Adds default headers; headers set by the response itself are kept."""
        given = dict(headers)
        ours = [header for header in self._security if header[0] not in given]
        if b"location" in given:
            self._location = given[b"location"].decode("latin-1")
        if self._trace is not None:
            ours.append((b"traceresponse", answered(self._trace, self._location)))
        return [*headers, (b"x-request-id", self.request_id.encode()), *ours]

    async def fail(self, error: Exception, receive: Receive) -> None:
        """Answers 500 with nothing but the request id; the log has the details."""
        log.error("unexpected error", path=self.scope["path"], exc_info=error)
        if self.status:
            raise error  # the response has begun: the connection can only be cut off
        unexpected = MatmulError("Something went wrong here; it was logged under the request id.")
        await problem_response(unexpected, self.scope)(self.scope, receive, self.send)

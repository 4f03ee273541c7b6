"""A collector for spans over OTLP/HTTP, in this process."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from jobs.tracing.request_trace import RequestTrace, current
from jobs.tracing.spans import ATTEMPT, Tracing
from jobs.tracing.spans import Span as TracedSpan

ERROR = 2  # the code of a span's status


@dataclass(frozen=True)
class Received:
    """A span as it came in; ids in hex."""

    part: str  # of the service: api or worker
    name: str
    trace: str
    id: str
    parent: str
    links: tuple[tuple[str, str], ...]  # trace and span
    is_error: bool
    attributes: dict[str, str | int]
    times_ns: tuple[int, int]


class Collector:
    """`spans` grows as they come."""

    def __init__(self, server: ThreadingHTTPServer, spans: list[Received]) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.spans = spans

    def of(self, trace: str, name: str, *, attempt: int | None = None) -> list[Received]:
        """Those of a trace with that name, in order of their beginnings."""
        found = [span for span in self.spans if (span.trace, span.name) == (trace, name)]
        of_attempt = [span for span in found if attempt in (None, span.attributes.get("matmul.job.attempt"))]
        return sorted(of_attempt, key=lambda span: span.times_ns)

    def one(self, trace: str, name: str, *, attempt: int | None = None) -> Received:
        (span,) = self.of(trace, name, attempt=attempt)
        return span

    def children(self, span: Received) -> list[str]:
        return sorted(each.name for each in self.spans if (each.trace, each.parent) == (span.trace, span.id))


@contextmanager
def collecting() -> Iterator[Collector]:
    """Until the end of the context."""
    spans: list[Received] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            spans.extend(_received(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, name="collector", daemon=True).start()
        try:
            yield Collector(server, spans)
        finally:
            server.shutdown()
        server.server_close()


def _received(body: bytes) -> Iterator[Received]:
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        about = {each.key: each.value.string_value for each in of_resource.resource.attributes}
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _span(about["matmul.part"], span)


def _span(part: str, span: Span) -> Received:
    attributes = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
    return Received(
        part=part,
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        is_error=span.status.code == ERROR,
        attributes=attributes,
        times_ns=(span.start_time_unix_nano, span.end_time_unix_nano),
    )


class Told(Tracing):
    """Keeps the spans that a process would export."""

    def __init__(self) -> None:
        self.spans: list[tuple[RequestTrace, TracedSpan]] = []

    def tell(self, trace: RequestTrace, span: TracedSpan) -> None:
        self.spans.append((trace, span))

    def flush(self, timeout_s: float) -> None:
        """Nothing waits."""

    def named(self, name: str) -> list[TracedSpan]:
        return [span for _, span in self.spans if span.name == name]

    def ends(self) -> list[tuple[int, str | None]]:
        """Of the attempts told: their numbers, and how they failed."""
        return [
            (int(span.attributes["matmul.job.attempt"]), span.error and span.error[0]) for span in self.named(ATTEMPT)
        ]


TRACE = RequestTrace(f"00-{'a' * 32}-{'b' * 16}-01", "asked")


@contextmanager
def asked_by(trace: RequestTrace = TRACE) -> Iterator[None]:
    """Jobs that are made inside are this request's."""
    token = current.set(trace)
    try:
        yield
    finally:
        current.reset(token)

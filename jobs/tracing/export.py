"""Exports spans over OTLP/HTTP with OpenTelemetry's SDK, which is imported only if the environment asks for spans."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

import structlog

from jobs.tracing.request_trace import RequestTrace
from jobs.tracing.spans import Link, Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import SpanContext

SERVICE = "matmul-service"
NEEDED = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.trace.export",
    "concurrent.futures.thread",
    "requests",  # by the exporter, when it is made
    "netrc",  # by requests, at its first request
)
DELAY_MS = 1000  # until spans are sent; a process that is killed loses those not yet sent

log = structlog.get_logger(__name__)


def is_wanted() -> bool:
    """Whether OpenTelemetry's environment variables name an endpoint for spans."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    endpoints = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return any(os.environ.get(name) for name in endpoints)


def preload() -> None:
    """Imports in a forking process all that it and its children need to send spans. A module that its thread of spans
    imports later may be half imported at a fork, and the child's own thread would wait for that import for ever.
    """
    if is_wanted():
        with suppress(ImportError):
            for name in NEEDED:
                import_module(name)


def make_tracing(part: str) -> OtlpTracing | None:
    """The exporter for this process, not for its forks; None if no spans are wanted. `part`: `api` or `worker`."""
    if not is_wanted():
        return None
    try:
        provider = _provider(part)
    except ImportError:
        log.warning("no spans are exported: install the extra [tracing] for OTEL_EXPORTER_OTLP_ENDPOINT to count")
        return None
    return OtlpTracing(provider)


def _provider(part: str) -> TracerProvider:
    """A tracer provider that samples, batches and sends as OTEL_* say. Raises ImportError if the SDK is not
    installed.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_span_id(self) -> int:
            wanted = _next_id.get()
            return super().generate_span_id() if wanted is None else int(wanted, 16)

    about: dict[str, str | int] = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or SERVICE,
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
        "matmul.part": part,
    }
    provider = TracerProvider(resource=Resource.create(about), id_generator=Ids(), shutdown_on_exit=False)
    delay_ms = None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else DELAY_MS
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay_ms))
    return provider


_next_id: ContextVar[str | None] = ContextVar("next_span_id", default=None)


@contextmanager
def _named(wanted: str | None) -> Iterator[None]:
    """Gives spans that begin in this context this id."""
    before = _next_id.set(wanted)
    try:
        yield
    finally:
        _next_id.reset(before)


class OtlpTracing:
    """Safe to share between threads."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self._tracer = provider.get_tracer("matmul")

    def tell(self, trace: RequestTrace, span: Span) -> None:
        if not trace.is_sampled:
            return
        try:
            self._tell(trace, span)
        except Exception:  # a tracing error must not affect jobs
            log.exception("a span could not be told", span=span.name)

    def _tell(self, trace: RequestTrace, span: Span) -> None:
        from opentelemetry import trace as api

        parent = _context(trace, span.parent or trace.span_id)
        with _named(span.id):
            exported = self._tracer.start_span(
                span.name,
                context=api.set_span_in_context(api.NonRecordingSpan(parent)),
                kind=api.SpanKind[span.kind.upper()],
                attributes=dict(span.attributes),
                links=[api.Link(_linked(link)) for link in span.links],
                start_time=span.start_ns,
            )
        if span.error is not None:
            exported.set_attribute("error.type", span.error[0])
            exported.set_status(api.StatusCode.ERROR, span.error[1])
        exported.end(max(span.start_ns, span.end_ns))

    def flush(self, timeout_s: float) -> None:
        """Flushes in a separate thread, because the SDK may wait for its collector longer than the timeout."""
        sending = Thread(target=self.provider.force_flush, name="flush", daemon=True)
        sending.start()
        sending.join(timeout_s)


def _context(trace: RequestTrace, span_id: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([trace.tracestate]) if trace.tracestate else None
    return SpanContext(int(trace.trace_id, 16), int(span_id, 16), True, TraceFlags(trace.flags), state)


def _linked(link: Link) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(link.trace_id, 16), int(link.span_id, 16), True, TraceFlags(TraceFlags.SAMPLED))

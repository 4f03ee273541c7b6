"""The trace of a request: the caller's, from `traceparent` (W3C Trace Context), or a new one. If spans are exported,
FastAPI's instrumentation creates the request's span by OpenTelemetry's conventions, and it is the parent of the spans
of the job that the request submits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.telemetry import TelemetryConfig
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    SpanContext,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import Scope

from jobs.random_hex import random_hex
from jobs.tracing.request_trace import RequestTrace

if TYPE_CHECKING:
    from jobs.tracing.export import OtlpTracing

JOBS = "/v1/jobs/"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_STATE = 512  # characters that the recommendation requires to be propagated
FLAGS = 0x03  # flags propagated in version 00: sampled, random trace id

_propagator = TraceContextTextMapPropagator()


def telemetry(tracing: OtlpTracing | None) -> TelemetryConfig:
    """FastAPI's instrumentation: a span for each request that `_has_trace`, and nothing else."""
    config = TelemetryConfig(
        tracing=tracing is not None, metrics=False, logs=False, operation_spans=False, auto_configure=False
    )
    if tracing is not None:
        config |= {"tracer_provider": tracing.provider, "exclude": lambda scope: not _has_trace(scope)}
    return config


def _has_trace(scope: Scope) -> bool:
    """Whether the request has a trace. Requests that only read do not start one, because pages and callers poll."""
    return scope["method"] not in READING or "traceparent" in Headers(scope=scope)


def trace_of(scope: Scope, headers: Headers, request_id: str) -> RequestTrace | None:
    """The trace of a request; None for one that only reads and has no `traceparent`. Malformed headers count as
    absent.
    """
    span = get_current_span().get_span_context()  # of FastAPI's, where spans are exported
    found = span if span.is_valid else _caller(headers)
    if found.is_valid:
        parent = f"00-{format_trace_id(found.trace_id)}-{format_span_id(found.span_id)}-{found.trace_flags & FLAGS:02x}"
        state = found.trace_state.to_header()
        return RequestTrace(parent, request_id, state if len(state) <= MAX_STATE else "")
    if scope["method"] in READING:
        return None
    made = random_hex(24)
    return RequestTrace(f"00-{made[:32]}-{made[32:]}-00", request_id)


def _caller(headers: Headers) -> SpanContext:
    """The trace context in the caller's headers; an invalid one if there is none."""
    parents = headers.getlist("traceparent")
    if len(parents) != 1:
        return INVALID_SPAN_CONTEXT
    given = {"traceparent": parents, "tracestate": headers.getlist("tracestate")}
    return get_current_span(_propagator.extract(given, Context())).get_span_context()


def answered(trace: RequestTrace, location: str | None) -> bytes:
    """The value of `traceresponse`: the trace and the span of this response; a new span id if that span is not
    exported. Also sets the request id and job id as attributes of the span.
    """
    span = get_current_span()
    if not span.get_span_context().is_valid:
        return f"00-{trace.trace_id}-{random_hex(8)}-00".encode()
    span.set_attribute("matmul.request_id", trace.request_id)
    if location is not None and location.startswith(JOBS):
        span.set_attribute("matmul.job.id", location.removeprefix(JOBS))
    return trace.traceparent.encode()

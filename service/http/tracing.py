"""The trace that a request belongs to: its caller's, as `traceparent` names it (W3C Trace Context), or a new one.

Where spans are exported, FastAPI makes that of the request, by OpenTelemetry's conventions, and it is the parent of all
spans of a job that the request makes.
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
MAX_STATE = 512  # characters, which the recommendation asks everyone to hand on
FLAGS = 0x03  # those that a trace of version 00 may hand on: sampled, and that its id is random

_propagator = TraceContextTextMapPropagator()


def telemetry(tracing: OtlpTracing | None) -> TelemetryConfig:
    """What FastAPI is to tell by itself: a span for each request that `_has_trace`, and nothing else."""
    config = TelemetryConfig(
        tracing=tracing is not None, metrics=False, logs=False, operation_spans=False, auto_configure=False
    )
    if tracing is not None:
        config |= {"tracer_provider": tracing.provider, "exclude": lambda scope: not _has_trace(scope)}
    return config


def _has_trace(scope: Scope) -> bool:
    """Requests that only read begin no trace: pages and callers ask over and over."""
    return scope["method"] not in READING or "traceparent" in Headers(scope=scope)


def trace_of(scope: Scope, headers: Headers, request_id: str) -> RequestTrace | None:
    """Of a request; None of one that only reads and came without. What is malformed counts as not there."""
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
    """What the caller's headers name; an invalid one for none."""
    parents = headers.getlist("traceparent")
    if len(parents) != 1:
        return INVALID_SPAN_CONTEXT
    given = {"traceparent": parents, "tracestate": headers.getlist("tracestate")}
    return get_current_span(_propagator.extract(given, Context())).get_span_context()


def answered(trace: RequestTrace, location: str | None) -> bytes:
    """The value of `traceresponse`: the trace, and the span that answered; where that is not exported, no span of the
    caller's. The span is told which request it is of, and which job it made or asked for."""
    span = get_current_span()
    if not span.get_span_context().is_valid:
        return f"00-{trace.trace_id}-{random_hex(8)}-00".encode()
    span.set_attribute("matmul.request_id", trace.request_id)
    if location is not None and location.startswith(JOBS):
        span.set_attribute("matmul.job.id", location.removeprefix(JOBS))
    return trace.traceparent.encode()

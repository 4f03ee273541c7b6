"""Spans as OpenTelemetry's SDK has them: ids, parents, links; when any are exported at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from jobs.tracing.export import OtlpTracing, is_wanted, make_tracing
from jobs.tracing.request_trace import RequestTrace
from jobs.tracing.spans import Link, LostAttempt, Span, attempt_span, span_id
from tests.support.otlp import TRACE, Told, collecting

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOWHERE = "http://127.0.0.1:9"
JOB = "job_1"
SENDS_A_SPAN = """
import sys
from jobs.tracing.export import make_tracing, preload
from jobs.tracing.spans import Span
from tests.support.otlp import TRACE
preload()
before = set(sys.modules)
tracing = make_tracing("worker")
tracing.tell(TRACE, Span("kernel", 1, 2))
tracing.provider.force_flush()
print(*sorted(set(sys.modules) - before))
"""


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpTracing]:
    monkeypatch.setenv(ENDPOINT, NOWHERE)
    made = make_tracing("worker")
    assert made is not None
    yield made
    made.provider.shutdown()


@pytest.fixture
def kept(tracing: OtlpTracing) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    tracing.provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


def test_a_span_has_the_id_times_and_links_that_it_was_told_with(
    tracing: OtlpTracing, kept: InMemorySpanExporter
) -> None:
    other, error = Link("c" * 32, "d" * 16), ("worker_lost", "It died.")
    tracing.tell(TRACE, attempt_span(TRACE, JOB, 2, (10, 30), links=[other], error=error))
    tracing.tell(TRACE, Span("kernel", 12, 20, parent=span_id(JOB, 2)))
    attempt, kernel = kept.get_finished_spans()
    assert attempt.context is not None and kernel.context is not None and attempt.parent and kernel.parent
    assert f"{attempt.context.span_id:016x}" == span_id(JOB, 2) != f"{kernel.context.span_id:016x}"
    assert f"{attempt.context.trace_id:032x}" == f"{kernel.context.trace_id:032x}" == TRACE.trace_id
    assert f"{attempt.parent.span_id:016x}" == TRACE.span_id and kernel.parent.span_id == attempt.context.span_id
    assert (attempt.start_time, attempt.end_time, attempt.kind) == (10, 30, SpanKind.CONSUMER)
    linked = [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in attempt.links]
    assert linked == [(TRACE.trace_id, span_id(JOB, 1)), (other.trace_id, other.span_id)]
    assert attempt.status.status_code is StatusCode.ERROR and kernel.status.status_code is StatusCode.UNSET
    assert attempt.attributes is not None and attempt.attributes["error.type"] == "worker_lost"


def test_a_trace_that_is_not_sampled_is_not_exported(tracing: OtlpTracing, kept: InMemorySpanExporter) -> None:
    tracing.tell(RequestTrace(f"{TRACE.traceparent[:-2]}00", "x"), Span("kernel", 1, 2))
    assert not kept.get_finished_spans()


def test_ids_of_attempts_differ_and_are_the_same_everywhere() -> None:
    ids = {span_id(job, attempt, name) for job in ("a", "b") for attempt in (1, 2) for name in ("attempt", "launch")}
    assert len(ids) == 8
    assert span_id(JOB, 1) == span_id(JOB, 1)


def test_an_attempt_that_was_recorded_without_a_trace_is_not_told() -> None:
    told = Told()
    LostAttempt("", 1, 2, "worker_lost").tell(told, JOB, 1)
    LostAttempt(str(TRACE), 1, 2, "worker_lost").tell(None, JOB, 1)
    assert not told.spans


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: NOWHERE}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": NOWHERE}, True),
        ({ENDPOINT: NOWHERE, "OTEL_SDK_DISABLED": "true"}, False),
        ({ENDPOINT: NOWHERE, "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_spans_are_exported_where_the_environment_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], wanted: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_wanted() is wanted
    if not wanted:
        assert make_tracing("api") is None


def test_nothing_is_imported_when_spans_are_sent_after_preload() -> None:
    """A fork in the middle of such an import would leave the child without spans."""
    with collecting() as collector:
        environment = {**os.environ, ENDPOINT: collector.url}
        ran = subprocess.run(
            [sys.executable, "-c", SENDS_A_SPAN], env=environment, capture_output=True, text=True, check=True
        )
        assert [span.name for span in collector.spans] == ["kernel"]
    assert ran.stdout.split() == []

"""The request that a job came with, as the ledger keeps it."""

from __future__ import annotations

import pytest

from jobs.tracing.request_trace import RequestTrace, log_fields

TRACE = RequestTrace(f"00-{'a' * 32}-{'b' * 16}-01", "req-1", "rojo=1, congo=t61 x")


@pytest.mark.parametrize("trace", [TRACE, RequestTrace(TRACE.traceparent, "x")])
def test_a_stored_trace_reads_back(trace: RequestTrace) -> None:
    assert RequestTrace.read(str(trace)) == trace


def test_its_parts() -> None:
    assert (TRACE.trace_id, TRACE.span_id, TRACE.flags, TRACE.is_sampled) == ("a" * 32, "b" * 16, 1, True)
    assert not RequestTrace(f"00-{'a' * 32}-{'b' * 16}-02", "x").is_sampled
    assert log_fields(str(TRACE)) == {"request_id": "req-1", "trace_id": "a" * 32}


@pytest.mark.parametrize(
    "stored", ["", "x", str(TRACE)[:54], TRACE.traceparent, f"0{TRACE}", f"01{str(TRACE)[2:]}", str(TRACE).upper()]
)
def test_other_text_is_not_a_trace(stored: str) -> None:
    assert RequestTrace.read(stored) is None
    assert log_fields(stored) == {}

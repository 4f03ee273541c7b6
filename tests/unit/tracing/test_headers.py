"""The trace that a request belongs to, by its headers."""

from __future__ import annotations

import re

import pytest
from starlette.datastructures import Headers

from service.http.tracing import telemetry, trace_of

A, B = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GIVEN = f"00-{A}-{B}-01"
MADE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00")
MALFORMED = (
    "",
    "x",
    GIVEN.upper(),
    GIVEN[:-1],
    f"{GIVEN}-x",  # version 00 has four parts
    f"ff{GIVEN[2:]}",
    f"00-{'0' * 32}-{B}-01",
    f"00-{A}-{'0' * 16}-01",
    f"00-{A[:-1]}g-{B}-01",
    f"00-{A}-{B}-01" * 20,
)


def found(method: str = "POST", *headers: tuple[str, str]) -> str | None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    trace = trace_of({"method": method}, Headers(raw=raw), "r")
    return None if trace is None else trace.traceparent


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_the_callers_trace_goes_on(method: str) -> None:
    assert found(method, ("traceparent", GIVEN)) == GIVEN
    assert found(method, ("traceparent", f"cc-{A}-{B}-09-what-comes-later")) == f"00-{A}-{B}-01"


@pytest.mark.parametrize("header", MALFORMED)
def test_a_malformed_header_counts_as_none(header: str) -> None:
    made = found("POST", ("traceparent", header))
    assert made is not None and MADE.fullmatch(made) and A not in made
    assert found("GET", ("traceparent", header)) is None


def test_two_of_them_count_as_none() -> None:
    assert found("GET", ("traceparent", GIVEN), ("traceparent", GIVEN)) is None


def test_each_request_that_may_change_something_has_a_trace_of_its_own() -> None:
    assert found("POST") != found("POST")
    assert found("GET") is None


def test_the_state_comes_along_unless_it_is_malformed() -> None:
    def state(*values: str) -> str:
        raw = [(b"traceparent", GIVEN.encode()), *((b"tracestate", value.encode()) for value in values)]
        trace = trace_of({"method": "POST"}, Headers(raw=raw), "r")
        assert trace is not None and trace.traceparent == GIVEN
        return trace.tracestate

    assert state("rojo=1", "congo=2").replace(" ", "") == "rojo=1,congo=2"
    assert state("no state") == state(",".join(f"k{i}={'v' * 40}" for i in range(30))) == ""


def test_fastapi_tells_nothing_where_no_spans_are_exported() -> None:
    assert not any(value for name, value in telemetry(None).items())

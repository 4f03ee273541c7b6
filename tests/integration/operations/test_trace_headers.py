"""Traces of requests and their jobs, where no spans are exported: headers, the ledger's record, no SDK."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from jobs.tracing.request_trace import RequestTrace
from tools.harness.api import Api

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PRODUCT = {"a": [[1.0]], "b": [[2.0]]}
LATER = {"prefer": "respond-async"}


def kept(api: Api, reply: httpx.Response) -> RequestTrace:
    """What the ledger keeps with the job of that reply."""
    trace = RequestTrace.read(api.ledger.get(reply.json()["job"]["id"]).trace)
    assert trace is not None
    return trace


def test_a_job_is_recorded_with_the_callers_trace(api: Api, quiet: httpx.Client) -> None:
    headers = {**LATER, "traceparent": GIVEN, "tracestate": "rojo=1", "x-request-id": "mine"}
    reply = quiet.post("/v1/matmul", json=PRODUCT, headers=headers)
    assert kept(api, reply) == RequestTrace(GIVEN, "mine", "rojo=1")
    assert reply.headers["traceresponse"][:36] == GIVEN[:36]


@pytest.mark.parametrize("headers", [{}, {"traceparent": "00-nothing-of-the-kind"}])
def test_a_job_without_one_is_recorded_with_a_new_one(api: Api, quiet: httpx.Client, headers: dict[str, str]) -> None:
    reply = quiet.post("/v1/matmul", json=PRODUCT, headers=LATER | headers)
    assert reply.status_code == 202
    trace = kept(api, reply)
    assert trace.traceparent[:36] == reply.headers["traceresponse"][:36]
    assert trace.request_id == reply.headers["x-request-id"]
    assert not trace.is_sampled


def test_what_only_reads_has_a_trace_where_its_caller_has_one(quiet: httpx.Client) -> None:
    assert "traceresponse" not in quiet.get("/v1/jobs").headers
    assert quiet.get("/v1/jobs", headers={"traceparent": GIVEN}).headers["traceresponse"][:36] == GIVEN[:36]


def test_a_job_that_is_run_again_keeps_its_trace(api: Api, quiet: httpx.Client) -> None:
    first = quiet.post("/v1/matmul", json=PRODUCT, headers=LATER | {"traceparent": GIVEN})
    job_id = first.json()["job"]["id"]
    quiet.post(f"/v1/jobs/{job_id}/cancel")
    again = quiet.post(f"/v1/jobs/{job_id}/retry")
    assert again.status_code == 202
    assert again.headers["traceresponse"][:36] != GIVEN[:36]
    assert kept(api, again).traceparent == GIVEN


def test_without_an_endpoint_nothing_of_the_exporter_is_imported() -> None:
    """redis-py imports the SDK by itself where it is installed; the exporter is ours alone."""
    script = (
        "import sys, service.server.main, worker.process.tasks; from service.app import create_app; create_app(); "
        "sys.exit(any(name.startswith(('opentelemetry.exporter', 'google.protobuf')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

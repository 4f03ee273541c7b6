"""Flows of benchmarks: start, compare, results, plots and reports."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from matmul_client.core.errors import InvalidRequest, NotFound, ServiceFailed, foreign_reply, job_error
from matmul_client.core.exchange import Record, exchange, get_json, segment
from matmul_client.core.jobs import job_of, wait
from matmul_client.core.options import plain
from matmul_client.core.results import BenchmarkResult
from matmul_client.core.wire import JSON, Call, Flow, Request

FORMS = {
    "html": "text/html",
    "markdown": "text/markdown",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def start(call: Call, preset: str | None, fields: Mapping[str, Any]) -> Flow[Record]:
    """The record of the benchmark's job. `fields` are those of its spec, beside or instead of a preset."""
    body = json.dumps({**({"preset": preset} if preset else {}), **plain(fields)}).encode()
    headers = {"content-type": JSON, "idempotency-key": secrets.token_hex(16)}
    reply = yield from exchange(call, Request("POST", "/v1/benchmarks", headers, (body,)))
    return job_of(reply)


def compare(call: Call, before: str, after: str) -> Flow[Record]:
    """The results of `after`, with their comparison to those of `before`: ids of two benchmarks' jobs."""
    target = f"/v1/benchmarks/{segment(after)}/results?compare={segment(before)}"
    return (yield from get_json(call, target, "cases", "counts"))


def result(call: Call, job_id: str) -> Flow[BenchmarkResult]:
    """The results, once the benchmark has ended. Raises JobFailed, JobCancelled."""
    record = yield from wait(call, job_id)
    if record["state"] != "succeeded":
        raise job_error(record)
    return (yield from results(call, job_id))


def results(call: Call, job_id: str) -> Flow[BenchmarkResult]:
    """The results so far."""
    document = yield from get_json(call, f"/v1/benchmarks/{job_id}/results", "job", "records", "warnings")
    try:
        drawn = (yield from rendered(call, job_id, "plots/gflops", "svg")).decode(errors="replace")
    except (ServiceFailed, NotFound):
        drawn = None  # the service was installed without what draws, or there is nothing to draw
    return BenchmarkResult(document, drawn)


def rendered(call: Call, job_id: str, what: str, form: str, fields: Mapping[str, Any] | None = None) -> Flow[bytes]:
    """A plot or the report, with the report's own fields, in one of FORMS. Raises InvalidRequest for any other."""
    if form not in FORMS:
        raise InvalidRequest(f"There is no form {form!r}; there are: {', '.join(FORMS)}.", field="form")
    target = f"/v1/benchmarks/{job_id}/{quote(what)}?{urlencode({'format': form, **(fields or {})})}"
    reply = yield from exchange(call, Request("GET", target, {"accept": FORMS[form]}))
    if not reply.headers.get("content-type", "").startswith(FORMS[form]):
        raise foreign_reply(reply.status)
    return bytes(reply.body)

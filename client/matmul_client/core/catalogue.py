"""Flows of lists and benchmarks."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from matmul_client.core.errors import NotFound, ServiceFailed, job_error
from matmul_client.core.products import get_json, wait
from matmul_client.core.results import BenchmarkResult
from matmul_client.core.retrying import exchange
from matmul_client.core.wire import JSON, Call, Flow, Request

Record = dict[str, Any]
FORMS = {
    "html": "text/html",
    "markdown": "text/markdown",
    "pdf": "application/pdf",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def listed(call: Call, path: str, name: str | None = None) -> Flow[list[Record]]:
    document = yield from get_json(call, f"/v1/{path}")
    found: list[Record] = document[name or path]
    return found


def jobs(call: Call, limit: int, where: Mapping[str, str]) -> Flow[list[Record]]:
    found: list[Record] = []
    cursor: str | None = None
    while len(found) < limit:
        page = {"limit": min(limit - len(found), 200), **where, **({"cursor": cursor} if cursor else {})}
        document = yield from get_json(call, f"/v1/jobs?{urlencode(page)}")
        found += document["jobs"]
        cursor = document["next"]
        if cursor is None:
            break
    return found


def start_benchmark(call: Call, preset: str | None, fields: Mapping[str, Any]) -> Flow[Record]:
    """Record of its job."""
    body = json.dumps({**({"preset": preset} if preset else {}), **fields}).encode()
    headers = {"content-type": JSON, "idempotency-key": secrets.token_hex(16)}
    reply = yield from exchange(call, Request("POST", "/v1/benchmarks", headers, (body,)))
    record: Record = json.loads(bytes(reply.body))["job"]
    return record


def compare(call: Call, before: str, after: str) -> Flow[Record]:
    found: Record = yield from get_json(call, f"/v1/benchmarks/{after}/results?{urlencode({'compare': before})}")
    return found


def benchmark_result(call: Call, job_id: str) -> Flow[BenchmarkResult]:
    """Waits for its end. Raises JobFailed, JobCancelled."""
    record = yield from wait(call, job_id)
    if record["state"] != "succeeded":
        raise job_error(record)
    return (yield from results(call, job_id))


def results(call: Call, job_id: str) -> Flow[BenchmarkResult]:
    """The results so far."""
    document = yield from get_json(call, f"/v1/benchmarks/{job_id}/results")
    try:
        drawn = (yield from shown(call, job_id, "plots/gflops", "svg")).decode()
    except (ServiceFailed, NotFound):
        drawn = None  # the service was installed without what draws, or there is nothing to draw
    return BenchmarkResult(document, drawn)


def shown(call: Call, job_id: str, what: str, form: str) -> Flow[bytes]:
    """A plot or the report, in one of FORMS."""
    target = f"/v1/benchmarks/{job_id}/{quote(what)}?format={form}"
    reply = yield from exchange(call, Request("GET", target, {"accept": FORMS[form]}))
    return bytes(reply.body)

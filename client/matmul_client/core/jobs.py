"""Flows of jobs: wait for one, cancel one, list them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

from matmul_client.core.errors import foreign_reply
from matmul_client.core.exchange import Record, document_of, exchange, get_json, segment
from matmul_client.core.wire import Call, Flow, Reply, Request

WAIT_S = 20  # of one request; what takes longer is asked for again
MEMBERS = ("id", "state")  # of every record
TERMINAL = frozenset({"succeeded", "failed", "cancelled"})
MAX_PAGE = 200  # jobs that the service lists at once


def wait_s(call: Call) -> int:
    """Seconds that the next request may ask the service to wait."""
    return max(1, int(min(WAIT_S, call.remaining_s)))


def find(call: Call, job_id: str, headers: Mapping[str, str] | None = None) -> Flow[Record]:
    """The job's record. Raises NotFound."""
    return (yield from get_json(call, f"/v1/jobs/{segment(job_id)}", *MEMBERS, headers=headers))


def wait(call: Call, job_id: str) -> Flow[Record]:
    """The job's record at its end."""
    while True:
        record = yield from find(call, job_id, {"prefer": f"wait={wait_s(call)}"})
        if record["state"] in TERMINAL:
            return record


def cancel(call: Call, job_id: str) -> Flow[Record]:
    """The job's record, cancelled. Raises Conflict if it had ended."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    reply = yield from exchange(call, Request("POST", f"/v1/jobs/{job_id}/cancel", headers))
    return document_of(reply, *MEMBERS)


def job_of(reply: Reply) -> Record:
    """The record of the job that a request has made. Raises ServiceFailed."""
    record = document_of(reply, "job")["job"]
    if not isinstance(record, dict) or "id" not in record:
        raise foreign_reply(reply.status)
    return record


def list_jobs(call: Call, limit: int, where: Mapping[str, str | None]) -> Flow[list[Record]]:
    """Records of at most `limit` jobs, newest first; `where` has the filters of GET /v1/jobs, None for no filter."""
    filters = {name: value for name, value in where.items() if value is not None}
    found: list[Record] = []
    cursor: str | None = None
    while len(found) < limit:
        page = {"limit": min(limit - len(found), MAX_PAGE), **filters, **({"cursor": cursor} if cursor else {})}
        document = yield from get_json(call, f"/v1/jobs?{urlencode(page)}", "jobs", "next")
        found += document["jobs"]
        cursor = document["next"]
        if cursor is None:
            break
    return found

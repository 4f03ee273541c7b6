"""The errors that a call can raise. The text of each is one sentence, from the service if the service refused."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from matmul_client.core.wire import Buffer


class MatmulError(Exception):
    """Base of all errors of this package."""


class InvalidOperand(MatmulError, TypeError):
    """An argument that cannot be sent as a matrix."""


class Unreachable(MatmulError, ConnectionError):
    """The service did not answer, on every try."""


class DeadlineExceeded(MatmulError, TimeoutError):
    """The call did not finish before its deadline; whatever it had started is cancelled."""


class ServerError(MatmulError):
    """The service refused the request, or failed.

    `status` is HTTP's, `code` the stable name of the error, `detail` the sentence, `field` the offending part of the
    request, `request_id` what to quote to the operator, `job_id` the job concerned.
    """

    def __init__(
        self,
        detail: str,
        *,
        status: int = 0,
        code: str = "",
        field: str | None = None,
        request_id: str | None = None,
        job_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.code = code
        self.field = field
        self.request_id = request_id
        self.job_id = job_id
        self.retry_after_s = retry_after_s


class InvalidRequest(ServerError, ValueError):
    """The request is invalid: status 400, 405, 406, 413, 415, 416, 422 or 431."""


class NotAllowed(ServerError, PermissionError):
    """The API key is missing, wrong, or may not do this: 401 or 403."""


class NotFound(ServerError, LookupError):
    """There is nothing under that id, or no longer: 404 or 410."""


class Conflict(ServerError):
    """The state of the job, or the live workers, do not allow this: 409."""


class Busy(ServerError):
    """A limit is reached, or the service cannot work now: 429 or 503. `retry_after_s` says when to ask again."""


class ServiceFailed(ServerError):
    """The service could not do what it should: other 5xx."""


class JobFailed(ServerError):
    """The job failed; `code` and `detail` are the reason in its record."""


class JobCancelled(ServerError):
    """The job was cancelled, so there is no product."""


_INVALID = frozenset({400, 405, 406, 413, 415, 416, 422, 431})
_BY_STATUS: Mapping[int, type[ServerError]] = {
    **dict.fromkeys(_INVALID, InvalidRequest),
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    429: Busy,
    503: Busy,
}


def error_of(status: int, headers: Mapping[str, str], body: Buffer) -> ServerError:
    """The error for a reply with status 300 or above, even if a proxy and not the service wrote it."""
    problem = document_in(body) or {}
    code = str(problem.get("type", "")).rpartition("/")[2] or f"http_{status}"
    job_id = problem.get("job")
    cls = _BY_STATUS.get(status, ServiceFailed)
    if job_id is not None:
        cls = JobCancelled if code == "job_cancelled" else JobFailed
    return cls(
        _sentence(problem.get("detail")) or _reasonless(status, headers),
        status=status,
        code=code,
        field=problem.get("field"),
        request_id=problem.get("request_id") or headers.get("x-request-id"),
        job_id=job_id,
        retry_after_s=seconds(headers.get("retry-after")),
    )


def _sentence(detail: object) -> str:
    """On one line; nothing where another server than ours gave something else than words."""
    return " ".join(detail.split()) if isinstance(detail, str) else ""


def _reasonless(status: int, headers: Mapping[str, str]) -> str:
    if status < 400 and "location" in headers:
        return f"The service's URL is redirected to {headers['location'][:200]!a}; give the URL of the service itself."
    return f"The service answered with status {status} and no reason."


def foreign_reply(status: int) -> ServiceFailed:
    """The error for a reply without what the service puts there: a proxy wrote it, or a program of another kind."""
    return ServiceFailed(
        f"The answer, with status {status}, is not one of a matmul service; check its URL and the proxies before it.",
        status=status,
        code="foreign_reply",
    )


def job_error(record: Mapping[str, Any]) -> ServerError:
    """The error for the record of a job that failed or was cancelled."""
    job_id = str(record["id"])
    if record["state"] == "cancelled":
        return JobCancelled("The job was cancelled, so no product will come.", code="job_cancelled", job_id=job_id)
    reason = record.get("error") or {}
    return JobFailed(
        str(reason.get("detail", "The job failed.")), code=str(reason.get("type", "job_failed")), job_id=job_id
    )


def seconds(header: str | None) -> float | None:
    """`Retry-After`, which may be a date, in seconds; None where it is missing or neither."""
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def document_in(body: Buffer) -> Mapping[str, Any] | None:
    """The JSON object in a body; None where there is none."""
    try:
        document = json.loads(bytes(body))
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None

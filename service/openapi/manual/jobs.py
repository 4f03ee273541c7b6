"""/v1/jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field

from jobs import errors
from jobs.base import Strict
from jobs.models import JobRecord
from service import problems as edge
from service.http.negotiation import FILE_OFFERS, JSON
from service.openapi.manual.matmul import JobReply, MatmulReply
from service.openapi.manual.parts import (
    CHANGE_CONDITIONS,
    CONDITIONAL,
    CONDITIONS,
    IDEMPOTENCY_KEY,
    IF_RANGE,
    JOB_ID,
    PREFER,
    RANGE,
    Piece,
    accept,
    binary,
    header_in,
    headers_out,
    json_answer,
    no_answer,
    problems,
    ref,
)

TAGS = ["jobs"]
JobId = Annotated[str, Path(description="Id of the job.", examples=[JOB_ID])]


class JobList(Strict):
    """One page of a list of jobs."""

    jobs: tuple[JobRecord, ...] = Field(description="Newest first; a key's own jobs only.")
    next: str | None = Field(description="`cursor` of the following page; null at the end.", examples=["ajEyMw"])


LIST: Piece = {
    "tags": TAGS,
    "operation_id": "list_jobs",
    "summary": "List jobs, newest first",
    "description": "In pages; `next` and the Link header lead to the following one. New jobs do not shift pages.",
    "responses": {200: json_answer(JobList, "A page.", "Link"), **problems(errors.InvalidRequest)},
}
GET: Piece = {
    "tags": TAGS,
    "operation_id": "get_job",
    "summary": "Read a job's record",
    "description": "With `Prefer: wait=N` the answer comes when the record differs from the version in If-None-Match "
    "or, without that header, when the job has ended; after N seconds at the latest.",
    "responses": {
        200: json_answer(JobRecord, "The record.", "ETag", "Preference-Applied"),
        304: no_answer("The caller's copy is current.", "ETag", "Preference-Applied"),
        **problems(errors.JobNotFound, errors.InvalidRequest, *CONDITIONAL),
    },
    "openapi_extra": {"parameters": [PREFER, *CONDITIONS]},
}
FILE_HEADERS = ("ETag", "Accept-Ranges", "X-Matmul-Dtype", "X-Matmul-Shape")
PRODUCT_HEADERS = ("Location", "Server-Timing", *FILE_HEADERS)
PRODUCT_FILES = binary(offer for offer in FILE_OFFERS if offer != JSON)
PRODUCT: Piece = {
    "tags": TAGS,
    "operation_id": "get_product",
    "summary": "Fetch a job's product",
    "description": "In the media type that Accept asks for. npy has no bfloat16 or float8_e4m3; JSON carries products "
    "of up to MATMUL_MAX_JSON_ELEMENTS elements. Binary types can be fetched in ranges. Bytes are compared with the "
    "digests taken when the product was stored, before they are sent. If a large product is damaged further on, the "
    "connection is closed before the damaged part.",
    "responses": {
        200: {
            "description": "The product.",
            "content": {**PRODUCT_FILES, JSON: {"schema": ref(MatmulReply)}},
            "headers": headers_out(*PRODUCT_HEADERS),
        },
        206: {
            "description": "The range asked for.",
            "content": PRODUCT_FILES,
            "headers": headers_out(*PRODUCT_HEADERS, "Content-Range"),
        },
        304: no_answer("The caller's copy is current.", "ETag"),
        **problems(
            errors.JobNotFound,
            errors.WrongState,
            errors.ProductExpired,
            errors.MatrixDamaged,
            edge.NotAcceptable,
            *CONDITIONAL,
            edge.RangeNotSatisfiable,
            errors.InvalidRequest,
        ),
    },
    "openapi_extra": {"parameters": [accept(FILE_OFFERS), RANGE, IF_RANGE, *CONDITIONS]},
}
EVENTS: Piece = {
    "tags": TAGS,
    "operation_id": "stream_events",
    "summary": "Follow a job as server-sent events",
    "description": "Each change is an event: `queued`, `running`, `progress`, then one of `succeeded`, `failed`, "
    "`cancelled`, which ends the stream. `data` is JSON with `state`, `attempt` and `version`, that of `progress` with "
    "`progress` as in the record. A benchmark's also has `found`: of a measurement just taken `case`, `round`, "
    "`kernel`, `m`, `n`, `k`, `dtype`, `status` and `gflops`; of a ceiling `name`, `unit` and `value`. A stream that "
    "broke off goes on after Last-Event-ID, also when the API was restarted meanwhile.",
    "responses": {
        200: {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        204: no_answer("All events were told already; do not ask again."),
        **problems(errors.JobNotFound, errors.InvalidRequest),
    },
    "openapi_extra": {
        "parameters": [header_in("Last-Event-ID", "Id of the last event that was received.", "1763632800000-0")]
    },
}
CANCEL: Piece = {
    "tags": TAGS,
    "operation_id": "cancel_job",
    "summary": "Cancel a job",
    "description": "A queued job is cancelled at once; a running one stops within a second. Its operands are kept for "
    "a time, so that it can be retried; deleting the job deletes them. A benchmark keeps its measurements.",
    "status_code": 202,
    "responses": {
        202: json_answer(JobRecord, "Cancelled now.", "ETag", "Location", "Idempotent-Replayed"),
        200: json_answer(JobRecord, "It had already been cancelled.", "ETag", "Location", "Idempotent-Replayed"),
        **problems(
            errors.JobNotFound,
            errors.WrongState,
            errors.IdempotencyKeyInUse,
            errors.IdempotencyKeyReused,
            errors.InvalidRequest,
        ),
    },
    "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
}
RETRY: Piece = {
    "tags": TAGS,
    "operation_id": "retry_job",
    "summary": "Queue a failed or cancelled job again",
    "description": "The attempts are counted anew, and the id stays the same. A benchmark continues after its last "
    "measurement.",
    "status_code": 202,
    "responses": {
        202: json_answer(JobReply, "Queued again.", "Location", "Retry-After", "Idempotent-Replayed"),
        **problems(
            errors.JobNotFound,
            errors.WrongState,
            errors.OperandMissing,
            errors.OperandFailed,
            errors.QuotaExceeded,
            errors.QueueFull,
            errors.IdempotencyKeyInUse,
            errors.IdempotencyKeyReused,
            errors.InvalidRequest,
            errors.StoreFull,
        ),
    },
    "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
}
DELETE: Piece = {
    "tags": TAGS,
    "operation_id": "delete_job",
    "summary": "Delete a job that has ended",
    "description": "Deletes its record with its product and its inline operands, or with the measurements of a "
    "benchmark.",
    "status_code": 204,
    "responses": {
        204: no_answer("Deleted."),
        **problems(errors.JobNotFound, errors.WrongState, errors.InvalidRequest, *CONDITIONAL),
    },
    "openapi_extra": {"parameters": [*CHANGE_CONDITIONS]},
}

"""Pinned results, and files of them."""

from __future__ import annotations

from pydantic import Field

from jobs import errors
from jobs.base import Strict
from jobs.models import JobRecord
from service import problems as edge
from service.openapi.manual.parts import IDEMPOTENCY_KEY, KEYS, Piece, headers_out, json_answer, problems

TAGS = ["benchmarks"]


class PinnedResults(Strict):
    """What a key has pinned."""

    limit: int = Field(description="Most that one key may pin.", examples=[100])
    jobs: tuple[JobRecord, ...] = Field(description="The last that were pinned first.")


LIST: Piece = {
    "tags": TAGS,
    "operation_id": "list_pinned",
    "summary": "List the pinned results",
    "description": "Pinned benchmarks do not expire; their bytes count in the key's quota.",
    "responses": {200: json_answer(PinnedResults, "The benchmarks."), **problems(errors.InvalidRequest)},
}
PIN: Piece = {
    "tags": TAGS,
    "operation_id": "pin_results",
    "summary": "Pin a benchmark's results",
    "description": "They do not expire until they are unpinned or deleted. At most MATMUL_MAX_PINNED_PER_KEY of a key.",
    "responses": {
        200: json_answer(JobRecord, "The benchmark's job.", "Idempotent-Replayed"),
        **problems(
            errors.JobNotFound, errors.InvalidRequest, errors.WrongState, errors.QuotaExceeded, errors.StoreFull, *KEYS
        ),
    },
    "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
}
UNPIN: Piece = {
    "tags": TAGS,
    "operation_id": "unpin_results",
    "summary": "Unpin a benchmark's results",
    "description": "From now on they are kept as long as any others.",
    "responses": {
        200: json_answer(JobRecord, "The benchmark's job.", "Idempotent-Replayed"),
        **problems(errors.JobNotFound, errors.InvalidRequest, *KEYS),
    },
    "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
}
EXPORT: Piece = {
    "tags": TAGS,
    "operation_id": "export_results",
    "summary": "Export a benchmark's results as one file",
    "description": "JSON with its spec, every measurement and every sample; another service imports it.",
    "responses": {
        200: {
            "description": "The file.",
            "content": {"application/json": {"schema": {"type": "object"}}},
            "headers": headers_out("Content-Disposition"),
        },
        **problems(errors.JobNotFound, errors.NotFound, errors.InvalidRequest, errors.WrongState),
    },
}
IMPORT: Piece = {
    "tags": TAGS,
    "operation_id": "import_results",
    "summary": "Import results that another service exported",
    "description": "The file is read strictly, to its last field, up to 16 MiB and a million values. It becomes a job "
    "of its own that succeeded and is pinned; its warnings say that it was imported.",
    "responses": {
        201: json_answer(JobRecord, "The job that has the results.", "Location", "Idempotent-Replayed"),
        **problems(
            errors.MalformedBody,
            errors.InvalidRequest,
            edge.PayloadTooLarge,
            edge.UnsupportedMediaType,
            edge.TooManyBodies,
            errors.QuotaExceeded,
            errors.StoreFull,
            *KEYS,
        ),
    },
    "openapi_extra": {
        "parameters": [IDEMPOTENCY_KEY],
        "requestBody": {
            "required": True,
            "description": "What `export_results` gave.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
    },
}

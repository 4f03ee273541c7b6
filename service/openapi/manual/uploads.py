"""/v1/uploads, and URLs of matrices."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from jobs import errors
from jobs.matrices.s3_store.staged import NoObjectStore, UploadNotSent
from service import problems as edge
from service.http.negotiation import JSON, OCTETS
from service.openapi.manual.matrices import TAGS, MatrixId, MatrixView
from service.openapi.manual.parts import IDEMPOTENCY_KEY, KEYS, Piece, json_answer, no_answer, problems, ref
from service.submit.transfers import UploadRequest, UploadStatus, UploadView, UrlView

__all__ = ["COMPLETE", "GIVE_UP", "OPEN", "SEND", "STATUS", "URL", "MatrixId", "UploadId"]

UploadId = Annotated[str, Path(description="Id of the upload.", examples=["up_0123456789abcdef0123456789abcdef"])]
OPEN: Piece = {
    "tags": TAGS,
    "operation_id": "open_upload",
    "summary": "Open an upload of a large matrix",
    "description": "PUT the elements to the URL in the reply, then complete the upload. A URL of this API takes them "
    "in ranges, over several connections and in any order; ranges that arrived before a connection broke need not be "
    "sent again. If matrices are in an object store, the URL leads there, past this API. Space for the whole matrix "
    "is reserved at once.",
    "status_code": 201,
    "responses": {
        201: json_answer(UploadView, "Send the elements now.", "Location", "Idempotent-Replayed"),
        **problems(
            *(errors.MalformedBody, errors.BodyTooLarge, edge.UnsupportedMediaType, errors.InvalidRequest),
            *(errors.InvalidMatrix, errors.UnsupportedDType, errors.StoreFull, NoObjectStore),
            *(errors.MatrixNotFound, *KEYS),
        ),
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "description": "The matrix that will be sent.",
            "content": {JSON: {"schema": ref(UploadRequest)}},
        },
        "parameters": [IDEMPOTENCY_KEY],
    },
}
STATUS: Piece = {
    "tags": TAGS,
    "operation_id": "get_upload",
    "summary": "See which bytes of an upload have arrived",
    "description": "After a connection broke, send the ranges that are missing from `received`.",
    "responses": {
        200: json_answer(UploadStatus, "What has arrived."),
        **problems(errors.MatrixNotFound, NoObjectStore, errors.InvalidRequest),
    },
}
SEND: Piece = {
    "tags": TAGS,
    "operation_id": "send_range",
    "summary": "Send elements of an upload",
    "description": "The bytes that `Content-Range` names (RFC 9110, section 14.5), or without it all of them. Ranges "
    "begin and end at multiples of 1 MiB (1,048,576 bytes), or at the matrix's end. They may be sent in any order, at "
    "the same time, and more than once. An upload that receives nothing for ten minutes ends.",
    "status_code": 204,
    "responses": {
        204: no_answer("They have arrived."),
        **problems(
            *(errors.MatrixNotFound, errors.WrongState, errors.InvalidMatrix, errors.InvalidRequest),
            *(edge.PayloadTooLarge, edge.UnsupportedMediaType, errors.StoreFull, NoObjectStore),
        ),
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "description": "Elements, little-endian and row-major, and nothing else.",
            "content": {OCTETS: {"schema": {"type": "string", "format": "binary"}}},
        },
        "parameters": [
            {
                "name": "Content-Range",
                "in": "header",
                "description": "Which bytes these are, of how many in all.",
                "schema": {"type": "string", "examples": ["bytes 0-1048575/67108864"]},
            }
        ],
    },
}
COMPLETE: Piece = {
    "tags": TAGS,
    "operation_id": "complete_upload",
    "summary": "Complete an upload",
    "description": "Checks what was sent: it must be complete and, if the upload was opened with an id, its sha256 "
    "must be that id. Only then can the matrix be used. Other contents end the upload.",
    "status_code": 201,
    "responses": {
        201: json_answer(MatrixView, "Stored.", "Location", "Idempotent-Replayed"),
        **problems(
            *(errors.MatrixNotFound, UploadNotSent, errors.WrongState, errors.InvalidMatrix, errors.DigestMismatch),
            *(errors.InvalidRequest, errors.StoreFull, NoObjectStore, *KEYS),
        ),
    },
    "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
}
GIVE_UP: Piece = {
    "tags": TAGS,
    "operation_id": "give_up_upload",
    "summary": "Abandon an upload",
    "description": "Its space is freed. Elements that its URL still accepts are removed later.",
    "status_code": 204,
    "responses": {
        204: no_answer("Deleted."),
        **problems(errors.MatrixNotFound, NoObjectStore, errors.InvalidRequest),
    },
}
URL: Piece = {
    "tags": TAGS,
    "operation_id": "get_matrix_url",
    "summary": "Get a URL to fetch a large matrix from",
    "description": "For services that keep matrices in an object store: the elements come directly from there. "
    "Whoever has the URL can read the matrix until it expires. Nothing is compared with digests on this path; compare "
    "the sha256 if it matters.",
    "responses": {
        200: json_answer(UrlView, "Fetch the elements there."),
        **problems(errors.MatrixNotFound, errors.WrongState, NoObjectStore, errors.InvalidRequest),
    },
}

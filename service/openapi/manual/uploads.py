"""/v1/uploads, and URLs of matrices."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from jobs import errors
from jobs.matrices.objects.staged import NoObjectStore, UploadNotSent
from service import problems as edge
from service.http.negotiation import JSON
from service.openapi.manual.matrices import TAGS, MatrixId, MatrixView
from service.openapi.manual.parts import IDEMPOTENCY_KEY, Piece, json_answer, no_answer, problems, ref
from service.submit.transfers import UploadRequest, UploadView, UrlView

__all__ = ["COMPLETE", "GIVE_UP", "OPEN", "URL", "MatrixId", "UploadId"]

UploadId = Annotated[str, Path(description="Id of the upload.", examples=["up_0123456789abcdef0123456789abcdef"])]
KEYS = (edge.InvalidHeader, errors.IdempotencyKeyInUse, errors.IdempotencyKeyReused)
OPEN: Piece = {
    "tags": TAGS,
    "operation_id": "open_upload",
    "summary": "Get a URL to send a large matrix to",
    "description": "Where matrices are in an object store, its elements then go there and not through this API: PUT "
    "them to the URL, and complete the upload. Room is reserved at once.",
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
            "description": "Which matrix will be sent.",
            "content": {JSON: {"schema": ref(UploadRequest)}},
        },
        "parameters": [IDEMPOTENCY_KEY],
    },
}
COMPLETE: Piece = {
    "tags": TAGS,
    "operation_id": "complete_upload",
    "summary": "Say that the elements were sent",
    "description": "Reads what was sent: size and sha256 must be those of the matrix that the upload was opened for. "
    "Only then can the matrix be used. What is something else ends the upload.",
    "status_code": 201,
    "responses": {
        201: json_answer(MatrixView, "Stored.", "Location", "Idempotent-Replayed"),
        **problems(
            *(errors.MatrixNotFound, UploadNotSent, errors.InvalidMatrix, errors.DigestMismatch),
            *(errors.InvalidRequest, errors.StoreFull, NoObjectStore, *KEYS),
        ),
    },
    "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
}
GIVE_UP: Piece = {
    "tags": TAGS,
    "operation_id": "give_up_upload",
    "summary": "Give an upload up",
    "description": "Its room is free again. What its URL still takes is removed later.",
    "status_code": 204,
    "responses": {
        204: no_answer("It is gone."),
        **problems(errors.MatrixNotFound, NoObjectStore, errors.InvalidRequest),
    },
}
URL: Piece = {
    "tags": TAGS,
    "operation_id": "get_matrix_url",
    "summary": "Get a URL to fetch a large matrix from",
    "description": "Where matrices are in an object store: the elements come from there and not through this API. "
    "Whoever has the URL can read the matrix while it lasts. Nothing is held against digests on this way; compare the "
    "sha256 where it matters.",
    "responses": {
        200: json_answer(UrlView, "Fetch the elements there."),
        **problems(errors.MatrixNotFound, errors.WrongState, NoObjectStore, errors.InvalidRequest),
    },
}

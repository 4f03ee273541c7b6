"""/v1/matrices."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Path
from pydantic import Field

from jobs import errors
from jobs.base import Strict
from kernels.model.numerics import DTYPE_NAMES, DTypeName
from service import problems as edge
from service.bodies.matrix import MatrixUpload
from service.http.negotiation import FILE_OFFERS, JSON, NPY, OCTETS, SAFETENSORS
from service.openapi.manual.parts import (
    CHANGE_CONDITIONS,
    CONDITIONAL,
    CONDITIONS,
    IDEMPOTENCY_KEY,
    IF_RANGE,
    MATRIX_ID,
    RANGE,
    Piece,
    accept,
    binary,
    header_in,
    headers_out,
    json_answer,
    no_answer,
    problems,
    query_in,
    ref,
)

TAGS = ["matrices"]
MatrixId = Annotated[str, Path(description="Id of the matrix.", examples=[MATRIX_ID])]


class MatrixView(Strict):
    """A stored matrix."""

    id: str = Field(
        description="sha256 of element type, shape and elements, or `c_…` for a product.", examples=[MATRIX_ID]
    )
    dtype: DTypeName = Field(description="Element type.")
    shape: tuple[int, ...] = Field(description="Rows and columns, or batch, rows and columns.", examples=[[256, 512]])
    bytes: int = Field(description="Size of the elements in bytes.", examples=[524288])
    created_at: datetime = Field(description="When its owner first stored it (UTC).")
    expires_at: datetime = Field(description="When it expires, unless it is used before then (UTC).")


OCTET_PARAMETERS = [
    header_in(
        "X-Matmul-Dtype",
        f"Element type of an octet-stream body: {', '.join(DTYPE_NAMES)}; or the query's `dtype`. Other bodies contain "
        "theirs, and this header is ignored.",
        "float32",
    ),
    header_in("X-Matmul-Shape", "Shape of an octet-stream body; or the query's `shape`.", "256,512"),
    query_in(
        "dtype",
        "Element type of an octet-stream body, instead of X-Matmul-Dtype; refused with other bodies.",
        "float32",
    ),
    query_in(
        "shape", "Shape of an octet-stream body, instead of X-Matmul-Shape; refused with other bodies.", "256,512"
    ),
]
DATA = {"value": {"data": [[1, 2], [3, 4]], "dtype": "int8"}}  # whose id is MATRIX_ID
RANDOM = {"value": {"random": {"shape": [256, 512], "dtype": "float32", "seed": 7}}}


def _body(**examples: Piece) -> Piece:
    return {
        "required": True,
        "description": "One matrix. npy and safetensors contain element type and shape; an octet-stream has the "
        "elements alone, little-endian and row-major.",
        "content": {
            **binary((NPY, SAFETENSORS, OCTETS)),
            JSON: {"schema": ref(MatrixUpload), "examples": examples},
        },
    }


UPLOAD_ERRORS = (
    errors.MalformedBody,
    errors.BodyTooLarge,
    edge.UnsupportedMediaType,
    errors.InvalidRequest,
    errors.InvalidMatrix,
    errors.UnsupportedDType,
    errors.StoreFull,
    edge.TooManyBodies,
)
STORED = {
    201: json_answer(MatrixView, "Stored.", "Location", "Idempotent-Replayed"),
    200: json_answer(
        MatrixView, "It was already stored; its time to live starts anew.", "Location", "Idempotent-Replayed"
    ),
}
UPLOAD: Piece = {
    "tags": TAGS,
    "operation_id": "upload_matrix",
    "summary": "Store a matrix",
    "description": "Its id follows from its contents, so the same contents are stored only once. Use it in as many "
    "products as you like.",
    "status_code": 201,
    "responses": {
        **STORED,
        **problems(*UPLOAD_ERRORS, errors.IdempotencyKeyInUse, errors.IdempotencyKeyReused),
    },
    "openapi_extra": {
        "requestBody": _body(random=RANDOM, data=DATA),
        "parameters": [IDEMPOTENCY_KEY, *OCTET_PARAMETERS],
    },
}
PUT: Piece = {
    "tags": TAGS,
    "operation_id": "put_matrix",
    "summary": "Store a matrix under a given id",
    "description": "As POST, but contents with another id are refused. The id is the sha256 of "
    "`<dtype>:<size>x<size>\\n` followed by the elements, little-endian and row-major. With `If-None-Match: *`, a "
    "matrix that is already stored is refused (412) before its body is read.",
    "status_code": 201,
    "responses": {**STORED, **problems(*UPLOAD_ERRORS, errors.DigestMismatch, errors.MatrixNotFound, *CONDITIONAL)},
    "openapi_extra": {"requestBody": _body(data=DATA), "parameters": [*CHANGE_CONDITIONS, *OCTET_PARAMETERS]},
}
FILES = binary(offer for offer in FILE_OFFERS if offer != JSON)
FILE_HEADERS = ("ETag", "Accept-Ranges", "X-Matmul-Dtype", "X-Matmul-Shape")
GET: Piece = {
    "tags": TAGS,
    "operation_id": "get_matrix",
    "summary": "Fetch a matrix",
    "description": "In the media type that Accept asks for: its contents, or in JSON its description. npy has no "
    "bfloat16 or float8_e4m3. Bytes are compared with the digests taken when the matrix was received, before they are "
    "sent. If a large matrix is damaged further on, the connection is closed before the damaged part.",
    "responses": {
        200: {
            "description": "The matrix.",
            "content": {**FILES, JSON: {"schema": ref(MatrixView)}},
            "headers": headers_out(*FILE_HEADERS),
        },
        206: {
            "description": "The range asked for.",
            "content": FILES,
            "headers": headers_out(*FILE_HEADERS, "Content-Range"),
        },
        304: no_answer("The caller's copy is current.", "ETag"),
        **problems(
            errors.MatrixNotFound,
            errors.MatrixDamaged,
            edge.NotAcceptable,
            *CONDITIONAL,
            edge.RangeNotSatisfiable,
            errors.InvalidRequest,
        ),
    },
    "openapi_extra": {"parameters": [accept(FILE_OFFERS), RANGE, IF_RANGE, *CONDITIONS]},
}
DELETE: Piece = {
    "tags": TAGS,
    "operation_id": "delete_matrix",
    "summary": "Delete a matrix",
    "description": "It can no longer be found. If waiting or running jobs need it, its bytes stay, and count in the "
    "quota, until the last of them has ended.",
    "status_code": 204,
    "responses": {
        204: no_answer("Deleted."),
        **problems(errors.MatrixNotFound, errors.InvalidRequest, *CONDITIONAL),
    },
    "openapi_extra": {"parameters": [*CHANGE_CONDITIONS]},
}

"""Building blocks of the manual. Each gives a piece of OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jobs.errors import (
    Forbidden,
    IdempotencyKeyInUse,
    IdempotencyKeyReused,
    JobFailed,
    MatmulError,
    OperandOutOfRange,
    OutOfDeviceMemory,
    StoreUnavailable,
    TimeLimitExceeded,
    Unauthenticated,
)
from service.http.negotiation import JSON
from service.problems import (
    PROBLEM_JSON,
    STATUS,
    InvalidHeader,
    JobCancelled,
    PreconditionFailed,
    RangeNotSatisfiable,
    TooManyAttempts,
    UnsupportedMediaType,
    title_of,
)

Piece = dict[str, Any]

JOB_ID = "job_0123456789abcdef0123456789abcdef"
MATRIX_ID = "cf33700563fa0a8f8d3e9c616969986b6e3015b2e6fe7260cc35c5199045214e"
REQUEST_ID = "8a1f0c2be47d9350"

MODELS: dict[str, type[Any]] = {}  # models that were passed to `ref`; they become components.schemas


class ProblemDocument(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(
        description="Stable name of the kind of problem, as a path.", examples=["/problems/shape_mismatch"]
    )
    title: str = Field(
        description="The kind of problem in words; the same each time.",
        examples=["The operands' shapes do not fit together."],
    )
    status: int = Field(description="HTTP status.", examples=[422])
    detail: str = Field(
        description="What happened this time and what to do, in one sentence.",
        examples=["a is 3×4 but b is 5×2: a's columns must equal b's rows."],
    )
    instance: str = Field(description="Path that was asked.", examples=["/v1/matmul"])
    request_id: str | None = Field(
        description="Id of the request, as in X-Request-Id and in the log.", examples=[REQUEST_ID]
    )
    field: str | None = Field(
        None, description="The offending part of the request, where one is to blame.", examples=["b"]
    )
    retry_after_s: int | None = Field(None, description="Seconds after which to try again.", examples=[1])
    limit_bytes: int | None = Field(None, description="Of body_too_large: the most bytes taken.", examples=[8388608])
    offers: list[str] | None = Field(None, description="Of not_acceptable: what can be sent.", examples=[[JSON]])
    job: str | None = Field(None, description="Of a job that failed or was cancelled: its id.", examples=[JOB_ID])


def ref(model: type[Any]) -> Piece:
    """A reference to the schema of a pydantic model or a dataclass."""
    MODELS[model.__name__] = model
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def header_in(name: str, description: str, example: Any, **schema: Any) -> Piece:
    """A request header."""
    return _parameter("header", name, description, example, **schema)


def query_in(name: str, description: str, example: Any) -> Piece:
    """A query parameter that its route reads by itself."""
    return _parameter("query", name, description, example)


def _parameter(place: str, name: str, description: str, example: Any, **schema: Any) -> Piece:
    return {
        "name": name,
        "in": place,
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
        "example": example,
    }


def headers_out(*names: str) -> Piece:
    """Response headers, by name."""
    return {
        name: {"description": text, "schema": {"type": kind}} for name in names for kind, text in [HEADERS_OUT[name]]
    }


HEADERS_OUT: Mapping[str, tuple[str, str]] = {
    "X-Request-Id": ("string", "Id of the request."),
    "Location": ("string", "Path of the job or matrix."),
    "Retry-After": ("integer", "Seconds after which to ask again."),
    "ETag": ("string", "Version of the contents; send it in If-None-Match."),
    "Content-Disposition": ("string", "A name for the file."),
    "Preference-Applied": ("string", "Which preferences were applied."),
    "Server-Timing": ("string", "`queue`, `h2d`, `kernel`, `d2h` and `total` in milliseconds."),
    "Idempotent-Replayed": (
        "string",
        "`true` if the Idempotency-Key was used before; this is the job of that request.",
    ),
    "X-Matmul-Dtype": ("string", "Element type."),
    "X-Matmul-Shape": ("string", "Shape: sizes, separated by commas."),
    "Content-Range": ("string", "Which bytes these are, of how many in all."),
    "Accept-Ranges": ("string", "`bytes`."),
    "Link": ("string", "`rel=next`: the following page."),
    "WWW-Authenticate": ("string", "`Bearer`."),
    "Accept-Post": ("string", "Media types that this path takes."),
    "Accept-Encoding": ("string", "Content codings that this path takes, if the body has another."),
}
ENDS = (JobCancelled, JobFailed, OperandOutOfRange, TimeLimitExceeded, OutOfDeviceMemory)  # one for each status
PROBLEM_HEADERS: Mapping[type[MatmulError], tuple[str, ...]] = {
    Unauthenticated: ("WWW-Authenticate",),
    UnsupportedMediaType: ("Accept-Post", "Accept-Encoding"),
    RangeNotSatisfiable: ("Content-Range",),
    **dict.fromkeys(ENDS, ("Location",)),
}

PREFER = header_in(
    "Prefer",
    "`wait=N`: wait up to N seconds (at most the server's MATMUL_MAX_WAIT_S). `respond-async`: do not wait. "
    "With both: wait first.",
    "wait=10",
)
IDEMPOTENCY_KEY = header_in(
    "Idempotency-Key",
    "1 to 255 printable ASCII characters, fresh for each new request. The same key with the same request is answered "
    "by the first one's result; with another request it is refused (422); while the first is running it is refused "
    "(409).",
    "6f1e9c1a-7f0c-4b52-9a57-0c6d1f6f5e0b",
    minLength=1,
    maxLength=255,
    pattern="^[ -~]+$",
)
IF_MATCH = header_in("If-Match", "ETags; if the current one is not among them, the answer is 412.", '"3"')
IF_NONE_MATCH = header_in("If-None-Match", "ETag of the caller's copy; while it is current, the answer is 304.", '"3"')
CONDITIONS = (IF_MATCH, IF_NONE_MATCH)
CHANGE_CONDITIONS = (
    IF_MATCH,
    header_in("If-None-Match", "ETags, or `*` for any; if the current one is among them, the answer is 412.", "*"),
)
RANGE = header_in("Range", "One range of bytes. Several ranges are answered with the whole.", "bytes=0-1023")
IF_RANGE = header_in("If-Range", "ETag; if it is no longer current, Range is ignored.", '"c_01.x-npy"')


def accept(offers: Iterable[str]) -> Piece:
    listed = list(offers)
    return header_in(
        "Accept",
        f"Media types wanted, with weights; {listed[0]} by default. There are: {', '.join(listed)}.",
        listed[0],
    )


def json_answer(model: type[Any], description: str, *headers: str) -> Piece:
    return {"description": description, "content": {JSON: {"schema": ref(model)}}, "headers": headers_out(*headers)}


def no_answer(description: str, *headers: str) -> Piece:
    """A response without a body."""
    return {"description": description, "headers": headers_out(*headers)}


def binary(types: Iterable[str]) -> Piece:
    """Media types whose body is bytes."""
    return {name: {"schema": {"type": "string", "format": "binary"}} for name in types}


def problems(*classes: type[MatmulError], needs_key: bool = True, reads_store: bool = True) -> dict[int | str, Piece]:
    """Responses for these errors, by status, each listing its types of problem."""
    more: list[type[MatmulError]] = [
        *(InvalidHeader, Forbidden),
        *([Unauthenticated, TooManyAttempts] if needs_key else []),
        *([StoreUnavailable] if reads_store else []),
        MatmulError,
    ]
    by_status: dict[int | str, list[type[MatmulError]]] = {}
    for cls in dict.fromkeys((*classes, *more)):
        by_status.setdefault(STATUS[cls], []).append(cls)
    return {status: _problem(listed) for status, listed in sorted(by_status.items(), key=lambda item: str(item[0]))}


def _problem(classes: list[type[MatmulError]]) -> Piece:
    lines = "\n".join(f"- `{cls.type}`: {title_of(cls)}" for cls in classes)
    return {
        "description": lines,
        "content": {
            PROBLEM_JSON: {
                "schema": ref(ProblemDocument),
                "examples": {cls.type: {"value": _example(cls)} for cls in classes},
            }
        },
        "headers": headers_out(*_headers_of(classes)),
    }


def _headers_of(classes: list[type[MatmulError]]) -> list[str]:
    own = [name for cls in classes for name in PROBLEM_HEADERS.get(cls, ())]
    waits = ["Retry-After"] if any(cls.retry_after_s is not None for cls in classes) else []
    return ["X-Request-Id", *own, *waits]


def _example(cls: type[MatmulError]) -> Piece:
    title = title_of(cls)
    return {
        "type": f"/problems/{cls.type}",
        "title": title,
        "status": STATUS[cls],
        "detail": title,
        "instance": "/v1/matmul",
        "request_id": REQUEST_ID,
    }


CONDITIONAL = (PreconditionFailed,)
KEYS = (IdempotencyKeyInUse, IdempotencyKeyReused)  # errors of requests that accept an Idempotency-Key

"""Error → problem+json (RFC 9457): the one table of HTTP statuses, and the errors that only HTTP knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson
from starlette.responses import Response
from starlette.types import Scope

from jobs import errors
from jobs.errors import MatmulError
from jobs.matrices.s3_store.staged import NoObjectStore, UploadNotSent
from jobs.redis.layout import WrongLayout
from jobs.stored import NotUnderstood, RecordUnreadable

PROBLEM_JSON = "application/problem+json"
IDEMPOTENCY_KEY = "Idempotency-Key"
MAX_SHOWN = 40  # characters of a caller's name in an error
INFERENCE = "/v2"  # its clients read the member `error`


class EdgeError(MatmulError):
    """The request cannot be answered this way."""

    type = "bad_request"

    def __init__(
        self,
        detail: str | None = None,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail, field=field)
        self.headers = dict(headers or {})
        self.members = dict(members or {})


class InvalidHeader(EdgeError):
    """A request header is not valid."""

    type = "invalid_header"


class MethodNotAllowed(EdgeError):
    """This path does not answer that method."""

    type = "method_not_allowed"


class NotAcceptable(EdgeError):
    """None of the media types in Accept can be sent."""

    type = "not_acceptable"


class RequestTimedOut(EdgeError):
    """The request did not arrive in time."""

    type = "request_timeout"


class PreconditionFailed(EdgeError):
    """What is there is not the version that the request names; fetch it again, or leave the condition out."""

    type = "precondition_failed"


class PayloadTooLarge(EdgeError, errors.BodyTooLarge):
    """The body is larger than this server takes."""

    type = errors.BodyTooLarge.type


class UnsupportedMediaType(EdgeError):
    """The body's media type is not one that this path takes."""

    type = "unsupported_media_type"


class RangeNotSatisfiable(EdgeError):
    """The range asked for lies outside the representation."""

    type = "range_not_satisfiable"


class HeadersTooLarge(EdgeError):
    """The request's headers are larger than this server takes."""

    type = "headers_too_large"


class MalformedRequest(EdgeError):
    """This is not HTTP/1.1 as this server reads it; check the request line, the headers and how the body is framed."""

    type = "malformed_request"


class TooManyConnections(EdgeError):
    """This server has as many connections as it takes; try again in a moment."""

    type = "too_many_connections"
    retry_after_s = 1


class TooManyAttempts(EdgeError):
    """Too many requests with a wrong API key came from this address; use a right one, or wait a minute."""

    type = "too_many_attempts"
    retry_after_s = 60


class TooManyBodies(EdgeError):
    """This server holds as much JSON as it has memory for; try again in a moment, or send .npy or safetensors."""

    type = "too_many_bodies"
    retry_after_s = 1


class ProductNotReady(EdgeError):
    """The product was not ready in the time that its caller waits."""

    type = "product_not_ready"
    retry_after_s = 1


class JobCancelled(MatmulError):
    """The job was cancelled, so no product will come."""

    type: ClassVar[str] = "job_cancelled"


STATUS: Mapping[type[MatmulError], int] = {
    EdgeError: 400,
    InvalidHeader: 400,
    MalformedRequest: 400,
    errors.MalformedBody: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.JobNotFound: 404,
    errors.MatrixNotFound: 404,
    MethodNotAllowed: 405,
    NotAcceptable: 406,
    RequestTimedOut: 408,
    errors.DigestMismatch: 409,
    errors.WrongState: 409,
    UploadNotSent: 409,
    errors.NoWorkerForKernel: 409,
    errors.NoWorkerForDevice: 409,
    errors.IdempotencyKeyInUse: 409,
    errors.OperandMissing: 409,
    errors.OperandFailed: 409,
    errors.KernelUnavailable: 409,
    NotUnderstood: 409,
    errors.StaleAttempt: 409,
    JobCancelled: 409,
    errors.ProductExpired: 410,
    PreconditionFailed: 412,
    errors.BodyTooLarge: 413,
    PayloadTooLarge: 413,
    UnsupportedMediaType: 415,
    RangeNotSatisfiable: 416,
    errors.InvalidRequest: 422,
    errors.InvalidMatrix: 422,
    errors.ShapeMismatch: 422,
    errors.UnsupportedDType: 422,
    errors.UnknownKernel: 422,
    errors.InvalidConfig: 422,
    errors.UnknownPreset: 422,
    errors.BenchmarkTooLarge: 422,
    errors.IdempotencyKeyReused: 422,
    errors.OperandOutOfRange: 422,
    errors.QuotaExceeded: 429,
    TooManyAttempts: 429,
    HeadersTooLarge: 431,
    MatmulError: 500,
    errors.JobFailed: 500,
    errors.WorkerLost: 500,
    errors.DeviceFault: 500,
    errors.VerificationFailed: 500,
    errors.OperandDamaged: 500,
    errors.MatrixDamaged: 500,  # not 503: retrying does not help; not 410: they were not removed on purpose
    errors.InvalidSettings: 500,
    errors.ExtraMissing: 501,
    NoObjectStore: 501,
    TooManyConnections: 503,
    TooManyBodies: 503,
    errors.QueueFull: 503,
    errors.StoreFull: 503,
    errors.StoreUnavailable: 503,
    errors.NoWorkers: 503,
    ProductNotReady: 503,
    RecordUnreadable: 503,
    WrongLayout: 503,
    errors.TimeLimitExceeded: 504,
    errors.OutOfDeviceMemory: 507,
    errors.NoRoomForProduct: 507,
}
BY_TYPE: Mapping[str, type[MatmulError]] = {cls.type: cls for cls in STATUS}


def shown(name: int | str) -> str:
    """A caller's own name, as an error repeats it: it may be long, or have characters that are no text."""
    text = str(name)
    return text if text.isprintable() and 0 < len(text) <= MAX_SHOWN else ascii(text[:MAX_SHOWN])


def title_of(cls: type[MatmulError]) -> str:
    """The title of an error type, the same for every problem of that type."""
    return (cls.__doc__ or "").strip()


def job_failure(error_type: str, detail: str) -> MatmulError:
    """The exception for the error in a job's record."""
    return BY_TYPE.get(error_type, errors.JobFailed)(detail)


# What is to blame where an error does not say itself: a header, or a part of the path.
FIELDS: Mapping[type[MatmulError], Sequence[str]] = {
    errors.IdempotencyKeyInUse: (IDEMPOTENCY_KEY,),
    errors.IdempotencyKeyReused: (IDEMPOTENCY_KEY,),
    errors.NotFound: ("job_id", "name", "queue", "worker"),
    errors.JobNotFound: ("job_id",),
    errors.MatrixNotFound: ("matrix_id", "upload"),
    errors.DigestMismatch: ("matrix_id", "upload"),
    UploadNotSent: ("upload",),
}


def _field(error: MatmulError, scope: Scope) -> str | None:
    there = {IDEMPOTENCY_KEY, *scope.get("path_params", ())}
    return error.field or next((name for name in FIELDS.get(type(error), ()) if name in there), None)


def problem_document(error: MatmulError, scope: Scope) -> dict[str, Any]:
    """The members of the problem document for `error`, raised while answering the request of `scope`."""
    cls = type(error)
    document: dict[str, Any] = {
        "type": f"/problems/{cls.type}",
        "title": title_of(cls),
        "status": STATUS[cls],
        "detail": error.detail,
        "instance": scope["path"],
        "request_id": scope["state"].get("request_id"),
    }
    if scope["path"].startswith(INFERENCE):
        document["error"] = error.detail
    if (field := _field(error, scope)) is not None:
        document["field"] = field
    if error.retry_after_s is not None:
        document["retry_after_s"] = error.retry_after_s
    return document | getattr(error, "members", {})


def problem_response(
    error: MatmulError,
    scope: Scope,
    headers: Mapping[str, str] | None = None,
    *,
    members: Mapping[str, Any] | None = None,
) -> Response:
    """`error` as an HTTP response; `headers` and `members` are added to the error's own."""
    document = problem_document(error, scope) | dict(members or {})
    all_headers = problem_headers(error) | dict(headers or {})
    if isinstance(error, errors.Unauthenticated):
        all_headers["www-authenticate"] = "Bearer"
    return Response(orjson.dumps(document), document["status"], all_headers, PROBLEM_JSON)


def problem_headers(error: MatmulError) -> dict[str, str]:
    """The error's own headers, also used for pages."""
    headers = dict(getattr(error, "headers", {}))
    return headers if error.retry_after_s is None else headers | {"retry-after": str(error.retry_after_s)}
